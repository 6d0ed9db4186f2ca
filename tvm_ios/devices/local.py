"""The CPU of this machine as a device to measure on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tvm_ios.devices.protocol import (
    BuiltKernels,
    MeasuringSession,
    RunnableModel,
    TimedExecutor,
)
from tvm_ios.devices.traits import CPU, DeviceTraits
from tvm_ios.host import default_lanes, host_target, processor_name
from tvm_ios.host.lane_speeds import LaneSpeeds, lane_speeds
from tvm_ios.runtime.base.lane_pool import require_lanes
from tvm_ios.runtime.base.native_runtime import LANE_EXECUTOR
from tvm_ios.runtime.cpu.stage_runner import NativeStageRunner
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.processor import ThisProcessor
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["LocalCpu", "LocalSession"]


@dataclass(frozen=True, slots=True)
class LocalCpu:
    """Cores that this process may use."""

    traits: ClassVar[DeviceTraits] = CPU
    notes: ClassVar[tuple[str, ...]] = ()
    """No lines: a report that names no device speaks of this one."""

    @property
    def name(self) -> str:
        """Model and instruction set of the processor."""
        return processor_name()

    @property
    def executor_digest(self) -> str:
        """Digest of the lane executor."""
        return LANE_EXECUTOR.digest

    @property
    def target(self) -> str:
        """Best TVM target for the processor."""
        return host_target()

    @property
    def speeds(self) -> LaneSpeeds:
        """Speeds of a core, measured once; those of a typical one without a C compiler."""
        return lane_speeds() or self.traits.speeds

    def require_lanes(self, lanes: int | None) -> int:
        """Number of lanes; all usable cores where omitted."""
        cores = default_lanes()
        return cores if lanes is None else require_lanes(lanes, cores, "this process may use")

    def cores_for(self, lanes: int) -> int:
        """Number of cores that measurements keep busy: one for each lane."""
        return lanes

    def as_text(self) -> str:
        """Processor and cores of this machine, for messages."""
        return f"this machine ({processor_name()}, cores: {default_lanes()})"

    def at(self, address: str) -> LocalCpu:  # noqa: ARG002 - there is one only
        """The machine itself."""
        return self

    def open(self) -> LocalSession:
        """Session, which holds nothing."""
        return LocalSession(self)


class LocalSession(MeasuringSession):
    """Session with stages and models on lanes of this process."""

    def __init__(self, device: LocalCpu) -> None:
        self.device = device
        self._libraries: OpenLibraries | None = None

    def export(self, kernels: BuiltKernels) -> Path:
        """File of the kernels, which fits already."""
        return kernels.path

    def stage_runner(self, lanes: int) -> NativeStageRunner:
        """Runner of stages on as many threads, the caller's included."""
        return NativeStageRunner(ThisProcessor(), lanes)

    def executor(self, model: RunnableModel) -> TimedExecutor:
        """Executor of the model in this process."""
        return model.executor()

    def libraries(self, store: FactStore | None = None) -> OpenLibraries:
        """Operator libraries on this processor."""
        if self._libraries is None:
            self._libraries = OpenLibraries(ThisProcessor(), store, target_kind="llvm")
        return self._libraries

    def close(self) -> None:
        """Close the operator libraries; may be called twice."""
        if self._libraries is not None:
            self._libraries.close()
