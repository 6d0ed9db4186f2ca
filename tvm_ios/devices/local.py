"""The CPU of this machine as a place to measure on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvm_ios.core.whole_number import as_whole
from tvm_ios.devices.protocol import (
    BuiltKernels,
    MeasuringSession,
    RunnableModel,
    TimedExecutor,
)
from tvm_ios.devices.traits import CPU, DeviceTraits
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes, host_target, processor_name
from tvm_ios.runtime.native_runtime import runtime_digest
from tvm_ios.runtime.stage_runner import LocalStageLanes, NativeStageRunner

__all__ = ["LocalCpu", "LocalSession", "lanes_of_cores"]


@dataclass(frozen=True, slots=True)
class LocalCpu:
    """The cores that this process may use."""

    @property
    def name(self) -> str:
        """What its prices are kept under: the processor's model and instruction set."""
        return processor_name()

    @property
    def executor_digest(self) -> str:
        """Digest of the lane executor."""
        return runtime_digest()

    @property
    def target(self) -> str:
        """The best TVM target for its processor."""
        return host_target()

    @property
    def traits(self) -> DeviceTraits:
        """Those of CPUs."""
        return CPU

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing: a report that names no device speaks of this one."""
        return ()

    def require_lanes(self, lanes: int | None) -> int:
        """The number of lanes, all usable cores where omitted.

        Raises
        ------
        OptionError
            If it is below one or above the cores there are.
        """
        return lanes_of_cores(lanes, default_lanes(), "this process may use")

    def as_text(self) -> str:
        """For messages."""
        return f"this machine ({processor_name()}, cores: {default_lanes()})"

    def open(self) -> LocalSession:
        """A session, which takes nothing."""
        return LocalSession(self)


class LocalSession(MeasuringSession):
    """Stages and models on lanes of this process."""

    def __init__(self, device: LocalCpu) -> None:
        self.device = device

    def export(self, kernels: BuiltKernels) -> Path:
        """The file that the kernels have anyway."""
        return kernels.path

    def stage_runner(self, lanes: int) -> NativeStageRunner:
        """What runs stages on as many threads, the caller's included.

        Raises
        ------
        OptionError
            If there are more lanes than cores.
        """
        return NativeStageRunner(LocalStageLanes(lanes))

    def executor(self, model: RunnableModel) -> TimedExecutor:
        """The model's own executor."""
        return model.executor()

    def close(self) -> None:
        """Nothing is held."""


def lanes_of_cores(lanes: int | None, cores: int, owner: str) -> int:
    """The number of lanes of a CPU, all its cores where omitted.

    Parameters
    ----------
    lanes
        What was asked for.
    cores
        Most there can be.
    owner
        Whose they are, with a verb, such as ``"this process may use"``.

    Raises
    ------
    OptionError
        If it is below one or above the cores there are.
    """
    if lanes is None:
        return cores
    number = as_whole(lanes)
    if number is None or not 1 <= number <= cores:
        raise OptionError(f"lanes is {lanes!r}, but {owner} {cores} cores; give 1 to {cores}")
    return number
