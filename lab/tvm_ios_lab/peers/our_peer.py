"""tvm-ios: an exported build, loaded as a user loads it."""

from __future__ import annotations

from pathlib import Path

import tvm  # noqa: F401 - tvm_ios imports it late, and the worker has to know whether it is there

import tvm_ios
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios_lab.peers.build import exported_path
from tvm_ios_lab.peers.network import Case, Floats
from tvm_ios_lab.peers.peer import Contestant

__all__ = ["OurRunner", "make"]


class OurRunner:
    """A loaded build whose input is set once."""

    def __init__(
        self, module: tvm_ios.MultiStreamGraphModule | CudaGraphModule, case: Case
    ) -> None:
        self._module = module
        module.set_input(case.network.input, case.input)

    def run(self) -> None:
        """Run the network once."""
        self._module.run()

    def output(self) -> Floats:
        """Output of the last run."""
        output: Floats = self._module.get_output(0).numpy()
        return output


def make(contestant: Contestant, case: Case, folder: Path) -> OurRunner:
    """Load the build."""
    return OurRunner(tvm_ios.load(exported_path(folder, contestant.build)), case)
