"""tvm-ios: an exported build, loaded as a user loads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tvm  # noqa: F401 - tvm_ios imports it late, and the worker has to know whether it is there

import tvm_ios
from tvm_ios.core.parts import SEPARATOR
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios_lab.peers.build import exported_path, kept_build
from tvm_ios_lab.peers.network import Case, Floats, shared_inputs
from tvm_ios_lab.peers.peer import Contestant

__all__ = ["OurJointRunner", "OurRunner", "make", "make_joint"]

_Module = tvm_ios.MultiStreamGraphModule | CudaGraphModule


class OurRunner:
    """A loaded build whose input is set once."""

    def __init__(self, module: _Module, case: Case) -> None:
        self._module = module
        module.set_input(case.network.input, case.input)

    def run(self) -> None:
        """Run the network once."""
        self._module.run()

    def output(self) -> Floats:
        """Output of the last run."""
        output: Floats = self._module.get_output(0).numpy()
        return output


class OurJointRunner:
    """A loaded build of several networks, whose inputs are set once."""

    def __init__(self, module: _Module, cases: Sequence[Case]) -> None:
        self._module = module
        self._count = len(cases)
        shared = shared_inputs(cases)
        for case in cases:
            name = case.network.input
            own = f"{case.network.name}{SEPARATOR}{name}"
            module.set_input(name if name in shared else own, case.input)

    def run(self) -> None:
        """Run all networks once."""
        self._module.run()

    def outputs(self) -> list[Floats]:
        """Outputs of the last run."""
        return [self._module.get_output(number).numpy() for number in range(self._count)]


def make(contestant: Contestant, case: Case, folder: Path) -> OurRunner:
    """Load the build, or the kept one where the contestant names none."""
    build = contestant.build or kept_build(folder).name
    return OurRunner(tvm_ios.load(exported_path(folder, build)), case)


def make_joint(contestant: Contestant, cases: Sequence[Case], folder: Path) -> OurJointRunner:
    """Load the build that has all networks."""
    return OurJointRunner(tvm_ios.load(exported_path(folder, contestant.build)), cases)
