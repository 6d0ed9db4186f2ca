"""The machine of an evaluation: found by a process of its own, since looking takes a CUDA context.

    python -m tvm_ios_lab.gpu.machine FOLDER

One error line and exit status 2 where there is no GPU that can be used.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tvm_ios.errors import ArtifactError, HostError, TvmIosError
from tvm_ios.host import describe_gpu, processor_name
from tvm_ios.host.machine import version_facts
from tvm_ios_lab.harness.ledger import write_noun

__all__ = ["Machine", "find_machine", "main"]

_PACKAGES = (
    "numpy",
    "xgboost",
    "xgboost-cpu",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-nvrtc-cu12",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine that results are valid for."""

    target: str
    """TVM target of the kernels, such as ``cuda -arch=sm_90``."""
    device: str
    facts: Mapping[str, str]
    """Device, driver, processor."""
    versions: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Write the machine into a folder; refuse one with results of another device."""
        path = folder / "machine.json"
        if path.exists():
            before = self.read(folder)
            if (before.device, before.target) != (self.device, self.target):
                raise HostError(
                    f"{folder} has results of {before.device}, and this is {self.device}; "
                    "give another --output"
                )
        write_noun(path, self)

    @classmethod
    def read(cls, folder: Path) -> Machine:
        """Machine of a folder."""
        path = folder / "machine.json"
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, TypeError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read: {error}; use another --output") from error


def find_machine() -> Machine:
    """The first GPU of this machine, and everything next to it."""
    from tvm_ios.runtime.gpu.device import CudaDevice  # noqa: PLC0415 - loads TVM

    with CudaDevice() as gpu:
        facts = gpu.facts
    # Not earlier: where there is no driver, TVM comes with a stand-in.
    from tvm_ios_lab.gpu.device_code import compiler_text  # noqa: PLC0415 - loads TVM

    report, compiler = describe_gpu(), compiler_text()
    driver = f"serves CUDA {facts.driver_cuda}"
    return Machine(
        target=f"cuda -arch={facts.arch}",
        device=facts.name,
        facts={
            "GPU": facts.name,
            "multiprocessors": str(facts.multiprocessors),
            "GPU memory GiB": f"{facts.memory_bytes / 2**30:.0f}",
            "L2 MB": f"{facts.l2_bytes / 1e6:.0f}",
            "driver": driver,
            "nvidia-smi": "; ".join(report.devices) or "does not answer",
            "processor": processor_name(),
            "cores": str(len(os.sched_getaffinity(0))),
            "kernel": platform.release(),
        },
        versions=_versions()
        | {"nvcc": report.nvcc or f"none; {compiler}", "cuDNN": report.cudnn or "none"},
    )


def _versions() -> dict[str, str]:
    import tvm  # noqa: PLC0415 - takes seconds, and may be missing

    found = version_facts()
    found["tvm's CUDA"] = str(tvm.support.libinfo().get("CUDA_VERSION", "unknown"))
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``machine.json`` into a folder."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    try:
        find_machine().write(Path(folder))
    except (TvmIosError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
