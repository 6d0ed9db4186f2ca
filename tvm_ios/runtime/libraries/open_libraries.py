"""Libraries on one device, opened as launches need them, and the calls an executor makes of them.

They stand between the protocol of libraries and executors, and serve lanes and streams alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.library_call import CallDescriptor, LibraryCall, LibraryName
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.runtime.base.kernel_arguments import Kernel
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.runtime.libraries.protocol import (
    FactStore,
    LibraryLane,
    OpenLibrary,
    OperatorLibrary,
    PreparedCall,
    PreparedCalls,
)

__all__ = [
    "THIS_PROCESSOR",
    "LaunchCalls",
    "OpenLibraries",
    "ThisProcessor",
    "host_lane",
    "uses_libraries",
]


@dataclass(frozen=True, slots=True)
class ThisProcessor:
    """The processor this process runs on, as a device that libraries are opened on."""


THIS_PROCESSOR: Final = ThisProcessor()


def uses_libraries(plan: ExecutionPlan) -> bool:
    """True if a library computes any launch of a plan."""
    return any(launch.call is not None for launch in plan.launches)


class OpenLibraries:
    """The libraries on one device, each opened when it is first needed; a context manager.

    Parameters
    ----------
    device
        The device, as :meth:`OperatorLibrary.open` takes it; to be closed after this.
    store
        Where libraries keep what they find out. Without one they find it anew.
    target_kind
        The kind of TVM target that the device is of: ``llvm`` or ``cuda``.
    """

    def __init__(self, device: Any, store: FactStore | None = None, *, target_kind: str) -> None:
        self._device = device
        self._target_kind = target_kind
        self._store = store
        self._open: dict[str, OpenLibrary[Any]] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self, library: OperatorLibrary) -> OpenLibrary[Any]:
        """A library on the device; HostError if it is missing or does not fit."""
        key = library.name.key
        if key not in self._open:
            opened = library.open(self._device, self._store)
            self._undo.callback(opened.close)
            self._open[key] = opened
        return self._open[key]

    def named(self, name: LibraryName) -> OpenLibrary[Any]:
        """The library of a call, opened.

        Raises
        ------
        ExecutionError
            If there is no such library, or it is for devices of another kind.
        """
        library = find_library(name.key)
        if library is None:
            raise ExecutionError(
                f"the plan has {name.title} compute operators, which this tvm-ios does not know; "
                "compile the model with the installed version"
            )
        if library.target_kind != self._target_kind:
            raise ExecutionError(
                f"the plan has {name.title} compute operators, which is for {library.target_kind} "
                f"targets, and this is a device of {self._target_kind} targets; compile the model "
                "for this device"
            )
        return self.open(library)

    def complete(self, plan: ExecutionPlan) -> ExecutionPlan:
        """The plan with all that is found out on this device; kernels compute what is not."""
        wanted: dict[LibraryName, dict[CallDescriptor, None]] = {}
        for call in (launch.call for launch in plan.launches if launch.call is not None):
            wanted.setdefault(call.library, {})[call.descriptor] = None
        if not wanted:
            return plan
        found = {name: self.named(name).complete(calls) for name, calls in wanted.items()}
        return replace(plan, launches=tuple(_completed(launch, found) for launch in plan.launches))

    def close(self) -> None:
        """Close every library, even if one refuses; twice is fine."""
        self._open.clear()
        self._undo.close()


class LaunchCalls:
    """The calls of libraries that one executor makes, by the position of their launch.

    To be closed before the libraries that prepare them.
    """

    def __init__(self, libraries: OpenLibraries) -> None:
        self._libraries = libraries
        self._lanes: dict[tuple[LibraryLane, LibraryName], PreparedCalls] = {}
        self._calls: dict[int, PreparedCall] = {}
        self._undo = ExitStack()

    def kernel(self, position: int, launch: Launch, lane: LibraryLane) -> Kernel:
        """The call of a library that runs a launch in place of its kernel, and looks like one."""
        call = launch.call
        assert call is not None, "who asks sees that a library computes it"
        if (lane, call.library) not in self._lanes:
            made = self._libraries.named(call.library).on_lane(lane)
            self._undo.callback(made.close)
            self._lanes[lane, call.library] = made
        prepared = self._lanes[lane, call.library].prepare(call.descriptor, launch.operator)
        self._calls[position] = prepared
        return Kernel(prepared.function, resource=prepared.resource)

    def failure(self, position: int, where: str) -> ExecutionError | None:
        """The error of a launch that just failed, if it was for its library."""
        call = self._calls.get(position)
        return None if call is None else call.failure(where)

    def constants_changed(self) -> None:
        """Have every call read its constants anew; a run under way may use the old ones."""
        for call in self._calls.values():
            call.constants_changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was taken for the calls, which must not be made any more."""
        self._lanes.clear()
        self._calls.clear()
        self._undo.close()


def host_lane(library: KernelLibrary) -> LibraryLane:
    """Any lane of this processor, with TVM's own workspace of the calling thread.

    ``library`` is the kernels of the model, whose lane executor splits regions.
    """
    return LibraryLane(
        take_workspace=TvmFunction.TAKE_WORKSPACE.address,
        give_workspace=TvmFunction.GIVE_WORKSPACE.address,
        split_region=library.runtime.parallel_launch,
        code=library.code,
    )


def _completed(
    launch: Launch, found: Mapping[LibraryName, Mapping[CallDescriptor, CallDescriptor | None]]
) -> Launch:
    if launch.call is None:
        return launch
    descriptor = found[launch.call.library][launch.call.descriptor]
    if descriptor is None:
        return replace(launch, call=None)
    return replace(launch, call=LibraryCall(launch.call.library, descriptor))
