"""A GPU of this machine as a device to measure on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import tvm

from tvm_ios.devices.protocol import (
    BuiltKernels,
    MeasuringSession,
    RunnableModel,
    TimedExecutor,
)
from tvm_ios.devices.traits import GPU, DeviceTraits
from tvm_ios.errors import OptionError
from tvm_ios.host import read_clocks
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.runtime.cuda.native_streams import STREAMS_SOURCE
from tvm_ios.runtime.cuda.stages import CudaStageRunner
from tvm_ios.runtime.gpu.device import CudaDevice, DeviceFacts, require_arch
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.protocol import FactStore
from tvm_ios.support.whole_number import as_whole

__all__ = ["GpuDevice", "GpuSession", "require_streams"]

DEFAULT_STREAMS = 8
"""Default number of streams: as many as a stage of the IOS paper has groups at most."""
MAX_STREAMS = 32
"""Limit of a GPU's queues. The driver gives a process eight, unless ``CUDA_DEVICE_MAX_CONNECTIONS``
says more; streams that share one wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A GPU of this machine, between sessions."""

    ordinal: int
    facts: DeviceFacts
    traits: ClassVar[DeviceTraits] = GPU

    @classmethod
    def find(cls, arch: str, ordinal: int = 0) -> GpuDevice:
        """GPU of a number, which runs code for an architecture such as ``sm_90``."""
        with CudaDevice(ordinal) as gpu:
            require_arch(gpu.facts, arch)
            return cls(ordinal=ordinal, facts=gpu.facts)

    @property
    def name(self) -> str:
        """Names of GPU, architecture and driver."""
        return f"{self.facts.name} ({self.facts.arch}), {self._driver}"

    @property
    def executor_digest(self) -> str:
        """Digest of the code that issues kernels to streams."""
        return STREAMS_SOURCE.digest

    @property
    def target(self) -> str:
        """TVM target of the GPU's architecture."""
        return f"cuda -arch={self.facts.arch}"

    @property
    def speeds(self) -> LaneSpeeds:
        """Speeds of a typical GPU: nothing is measured."""
        return self.traits.speeds

    @property
    def notes(self) -> tuple[str, ...]:
        """Line that says which GPU it is."""
        return (f"priced and raced on {self.as_text()}",)

    def require_lanes(self, lanes: int | None) -> int:
        """Number of streams; :data:`DEFAULT_STREAMS` where omitted."""
        return require_streams(lanes) or DEFAULT_STREAMS

    def cores_for(self, lanes: int) -> int:  # noqa: ARG002 - lanes are there, not here
        """Number of cores that measurements keep busy: one, for the thread that starts kernels."""
        return 1

    def as_text(self) -> str:
        """GPU, driver and L2 cache, for messages."""
        return (
            f"cuda({self.ordinal}), {self.facts.name}, {self._driver}; prices assume a warm L2 "
            f"cache of {self.facts.l2_bytes / 2**20:.0f} MB"
        )

    def at(self, address: str) -> GpuDevice:  # noqa: ARG002 - it is reached from here only
        """The GPU itself."""
        return self

    def open(self) -> GpuSession:
        """Session that holds the GPU's context until it is closed."""
        return GpuSession(self)

    @property
    def _driver(self) -> str:
        return f"driver for CUDA {self.facts.driver_cuda}"


class GpuSession(MeasuringSession):
    """Session with stages and models on a GPU."""

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self._gpu = CudaDevice(device.ordinal)
        self._libraries: OpenLibraries | None = None

    def export(self, kernels: BuiltKernels) -> Path:
        """File of the kernels, which holds the code for the GPU already."""
        return kernels.path

    def stage_runner(self, lanes: int) -> CudaStageRunner:
        """Runner of stages on as many streams."""
        return CudaStageRunner(lanes, self._gpu)

    def executor(self, model: RunnableModel) -> TimedExecutor:
        """Executor of the model on this GPU."""
        return model.executor(tvm.cuda(self._gpu.ordinal))

    def libraries(self, store: FactStore | None = None) -> OpenLibraries:
        """Operator libraries on this GPU."""
        if self._libraries is None:
            self._libraries = OpenLibraries(self._gpu, store, target_kind="cuda")
        return self._libraries

    def notes(self) -> tuple[str, ...]:
        """Line on the GPU's clocks now, useful right after pricing."""
        clocks = read_clocks(self._gpu.bus_id)
        if clocks is None:
            return ("the GPU's clocks are not known: nvidia-smi does not tell",)
        return (f"after pricing: {clocks.as_text()}",)

    def close(self) -> None:
        """Release the context; may be called twice."""
        try:
            if self._libraries is not None:
                self._libraries.close()
        finally:
            self._gpu.close()


def require_streams(streams: int | None) -> int | None:
    """Number of streams, if given; OptionError if no GPU can have so many."""
    if streams is None:
        return None
    number = as_whole(streams)
    if number is None or not 1 <= number <= MAX_STREAMS:
        raise OptionError(f"lanes is {streams!r}; give 1 to {MAX_STREAMS} streams of a GPU")
    return number
