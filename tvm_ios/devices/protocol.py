"""Protocols of a measuring device and its sessions.

A device is what is known between sessions: immutable, and without hold on anything. A session holds
the device until it is closed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from tvm_ios.devices.traits import DeviceTraits
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.measure.patience import Patience
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.protocol import FactStore, OperatorLibrary
from tvm_ios.runtime.libraries.stage_libraries import LibraryStageRunner

__all__ = [
    "BuiltKernels",
    "MeasuringDevice",
    "MeasuringSession",
    "RunnableModel",
    "StagedKernels",
    "TimedExecutor",
]


class StagedKernels(Protocol):
    """Kernels as TVM compiled them; a :class:`~tvm_ios.relay.build.StagedBuild`."""

    @property
    def factory(self) -> Any:
        """TVM's ``GraphExecutorFactoryModule``, which can be linked again."""
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters by name."""
        ...


class BuiltKernels(Protocol):
    """Compiled kernels and their file; a :class:`~tvm_ios.compile.model_kernels.ModelKernels`."""

    @property
    def path(self) -> Path:
        """Path of a library that this machine can load, linked on first use."""
        ...

    @property
    def staged(self) -> StagedKernels:
        """Kernels before linking, for a session that links them in another way."""
        ...


class TimedExecutor(Protocol):
    """A whole model that is timed on a device."""

    def run(self) -> None:
        """Run once, with the inputs that are set."""
        ...

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        ...

    def get_output(self, index: int, /) -> Any:
        """Output by number: an array of TVM or NumPy, which a later run may overwrite."""
        ...

    def set_input(self, name: str, value: Any, /) -> None:
        """Copy a value into an input."""
        ...

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs, by the clock of the device."""
        ...

    def trace(self, runs: int, /) -> Sequence[TraceEvent]:
        """The launches of the last of several runs; none where the device does not report them."""
        ...

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off; 0 where there is no such thing."""
        ...

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        ...

    def close(self) -> None:
        """Free threads and memory; may be called twice."""
        ...


class RunnableModel(Protocol):
    """A compiled model; a :class:`~tvm_ios.compile.model.CompiledModel`."""

    @property
    def plan(self) -> ExecutionPlan:
        """Launches of the model, and their order."""
        ...

    @property
    def kernels(self) -> BuiltKernels:
        """Kernels that the plan launches."""
        ...

    def executor(self, device: Any = None) -> TimedExecutor:
        """Executor of the model in this process, on a device of TVM."""
        ...


@runtime_checkable
class MeasuringDevice(Protocol):
    """Device that stages are priced and networks raced on."""

    @property
    def name(self) -> str:
        """Name that prices are stored under: a part of every key of the profile database."""
        ...

    @property
    def executor_digest(self) -> str:
        """Digest of the code that starts kernels on the device: another part of every key."""
        ...

    @property
    def target(self) -> str:
        """Best TVM target for the device."""
        ...

    @property
    def traits(self) -> DeviceTraits:
        """Speed and abilities that all devices of its kind share."""
        ...

    @property
    def speeds(self) -> LaneSpeeds:
        """Speeds of one lane; those of a typical one where they cannot be measured."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines on the device for reports; none for this machine's CPU, which readers expect."""
        ...

    def require_lanes(self, lanes: int | None) -> int:
        """Number of lanes to use; where omitted, the best number for the device.

        Raises
        ------
        OptionError
            If there cannot be so many lanes.
        """
        ...

    def cores_for(self, lanes: int) -> int:
        """Cores of this machine that a measurement on a number of lanes keeps busy."""
        ...

    def as_text(self) -> str:
        """Name of the device in messages."""
        ...

    def at(self, address: str) -> MeasuringDevice:
        """Device that a stage was granted in place of this one, equal but for its place.

        The address is a :attr:`~tvm_ios.support.stage_gate.GrantedStage.address`, or empty.
        """
        ...

    def open(self) -> MeasuringSession:
        """Session that holds the device until closed; one behind a tracker from its first use on.

        Raises
        ------
        HostError, CostError
            If the device is gone or lost.
        """
        ...


class MeasuringSession(ABC):
    """Stages and models on a device; a context manager that releases the device."""

    device: MeasuringDevice

    @cached_property
    def patience(self) -> Patience:
        """Patience of measurements, which sessions of one call share."""
        return Patience()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def in_stage(self, address: str) -> Iterator[None]:
        """Context in which a stage of a job measures; between stages others may have the device.

        The address of the stage's device is as for :meth:`MeasuringDevice.at`.
        """
        del address
        yield

    @abstractmethod
    def export(self, kernels: BuiltKernels) -> Path:
        """Library of compiled kernels that :meth:`stage_runner` can load.

        Raises
        ------
        HostError
            If the library cannot be linked.
        """

    @abstractmethod
    def stage_runner(self, lanes: int) -> LibraryStageRunner[Any]:
        """Runner of stages on a number of lanes; to be closed before the session.

        Raises
        ------
        OptionError
            If the device has fewer lanes.
        """

    @abstractmethod
    def executor(self, model: RunnableModel) -> TimedExecutor:
        """Executor of a whole model on the device; to be closed before the session.

        Raises
        ------
        OptionError
            If the device has fewer lanes than the model was compiled for.
        HostError, CostError
            If the kernels cannot be linked or loaded, or the device is lost.
        """

    def require(self, library: OperatorLibrary) -> OperatorLibrary:
        """An operator library as it is installed on the device.

        Raises
        ------
        HostError
            If it is missing or does not fit; the message says what to install.
        """
        return library.require()

    @abstractmethod
    def libraries(self, store: FactStore | None = None) -> OpenLibraries:
        """Operator libraries on the device, closed with the session.

        The store of the first call counts; it has facts that they found out before.
        """

    def notes(self) -> tuple[str, ...]:
        """Lines on the device's state that a reader of prices taken just now ought to know."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Release the device; may be called twice."""
