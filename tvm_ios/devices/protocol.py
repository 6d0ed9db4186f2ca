"""Protocols of a device that is measured on, and of its sessions.

A device is what is known between sessions: immutable, and with no hold on anything. A session holds
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
from tvm_ios.measure.machine_mode import Patience
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.stage_libraries import LibraryStageRunner
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.protocol import FactStore

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
        """TVM's ``GraphExecutorFactoryModule``, which can be linked once more."""
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters by name."""
        ...


class BuiltKernels(Protocol):
    """Compiled kernels and their file; a :class:`~tvm_ios.compile.built_model.ModelKernels`."""

    @property
    def path(self) -> Path:
        """A library that this machine can load, linked when first asked for."""
        ...

    @property
    def staged(self) -> StagedKernels:
        """The kernels before linking, for a session that links them another way."""
        ...


class TimedExecutor(Protocol):
    """A whole model that is timed on a device."""

    def run(self) -> None:
        """Run once, with the inputs that are set."""
        ...

    def get_output(self, index: int, /) -> Any:
        """An output by number: an array of TVM's or NumPy's, which a later run may overwrite."""
        ...

    def set_input(self, name: str, value: Any, /) -> None:
        """Copy a value into an input."""
        ...

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs, by the clock of the device."""
        ...

    def trace(self, runs: int, /) -> Sequence[TraceEvent]:
        """The launches of the last of so many runs; none where the device does not tell."""
        ...

    def ping_pong_ns(self) -> float:
        """One core-to-core hand-off, in nanoseconds; 0 where there is no such thing."""
        ...

    def close(self) -> None:
        """Free what it holds; may be called twice."""
        ...


class RunnableModel(Protocol):
    """A compiled model; a :class:`~tvm_ios.compile.model.CompiledModel`."""

    @property
    def plan(self) -> ExecutionPlan:
        """The launches, and the order they run in."""
        ...

    @property
    def kernels(self) -> BuiltKernels:
        """The kernels that the plan launches."""
        ...

    def executor(self, device: Any = None) -> TimedExecutor:
        """Run it in this process, on a device of TVM's."""
        ...


@runtime_checkable
class MeasuringDevice(Protocol):
    """A place where stages are priced and networks raced."""

    @property
    def name(self) -> str:
        """The name that prices are kept under: a part of every key of the profile database."""
        ...

    @property
    def executor_digest(self) -> str:
        """Digest of the code that starts kernels there: the other such part."""
        ...

    @property
    def target(self) -> str:
        """The best TVM target for it."""
        ...

    @property
    def traits(self) -> DeviceTraits:
        """Speed and abilities that all devices of its kind have in common."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines of a report on it; none on this machine's CPU, where readers expect prices."""
        ...

    def require_lanes(self, lanes: int | None) -> int:
        """The number of lanes to use; where omitted, what the device is best used with.

        Raises
        ------
        OptionError
            If there cannot be so many.
        """
        ...

    def cores_for(self, lanes: int) -> int:
        """Cores of this machine that a measurement with so many lanes keeps busy."""
        ...

    def as_text(self) -> str:
        """The device, for messages."""
        ...

    def at(self, address: str) -> MeasuringDevice:
        """The device that a stage was granted in place of this one, alike but for where it is.

        Parameters
        ----------
        address
            As :attr:`~tvm_ios.support.stage_gate.GrantedStage.address`; empty: this device.
        """
        ...

    def open(self) -> MeasuringSession:
        """Take the device until the session is closed; one behind a tracker when first used.

        Raises
        ------
        HostError, CostError
            If it is gone or lost.
        """
        ...


class MeasuringSession(ABC):
    """Stages and models on a device; a context manager that lets go of it."""

    device: MeasuringDevice

    @cached_property
    def patience(self) -> Patience:
        """What its measurements have spent on a slow machine; sessions may share one."""
        return Patience()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def in_stage(self, address: str) -> Iterator[None]:
        """Inside, a stage of a job measures; between two stages others may have the device.

        Parameters
        ----------
        address
            Where the stage was granted it, as for :meth:`MeasuringDevice.at`.
        """
        del address
        yield

    @abstractmethod
    def export(self, kernels: BuiltKernels) -> Path:
        """A library of compiled kernels that :meth:`stage_runner` can load.

        Raises
        ------
        HostError
            If it cannot be linked.
        """

    @abstractmethod
    def stage_runner(self, lanes: int) -> LibraryStageRunner[Any]:
        """The runner of stages on as many lanes; to be closed before the session.

        Raises
        ------
        OptionError
            If the device has fewer.
        """

    @abstractmethod
    def executor(self, model: RunnableModel) -> TimedExecutor:
        """A whole model on the device; to be closed before the session.

        Raises
        ------
        OptionError
            If the device has fewer lanes than the model was compiled for.
        HostError, CostError
            If the kernels cannot be linked or loaded, or the device is lost.
        """

    @abstractmethod
    def libraries(self, store: FactStore | None = None) -> OpenLibraries:
        """Libraries that compute operators there, closed with the session.

        Parameters
        ----------
        store
            Where they keep what they find out; that of the first call counts.
        """

    def notes(self) -> tuple[str, ...]:
        """Lines on the device's state that a reader of prices taken just now ought to know."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Let go of the device; may be called twice."""
