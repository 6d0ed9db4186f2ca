"""Operator libraries opened on one device, and the calls that an executor makes of them.

This stands between the protocol of operator libraries and executors on lanes and streams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol, Self

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.library_call import CallDescriptor, LibraryCall, LibraryName
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.runtime.base.loaded_plan import Kernel
from tvm_ios.runtime.base.native_runtime import NativeRuntime
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
    "LaunchCalls",
    "OpenLibraries",
    "host_lane",
    "kernels_of",
    "uses_libraries",
]


def uses_libraries(plan: ExecutionPlan) -> bool:
    """True if an operator library computes any launch of a plan."""
    return any(launch.call is not None for launch in plan.launches)


class OpenLibraries:
    """Operator libraries on one device, each opened when it is first needed; a context manager.

    Device and store are as :meth:`OperatorLibrary.open` takes them; the device is closed after
    this. ``target_kind`` is that of its TVM target: ``llvm`` or ``cuda``.
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
        """An operator library on the device; HostError if it is missing or does not fit."""
        key = library.name.key
        if key not in self._open:
            opened = library.open(self._device, self._store)
            self._undo.callback(opened.close)
            self._open[key] = opened
        return self._open[key]

    def named(self, name: LibraryName) -> OpenLibrary[Any]:
        """The opened operator library of a name."""
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
        """The plan with all calls completed for this device; kernels compute the refused ones."""
        wanted: dict[LibraryName, dict[CallDescriptor, None]] = {}
        for call in (launch.call for launch in plan.launches if launch.call is not None):
            wanted.setdefault(call.library, {})[call.descriptor] = None
        if not wanted:
            return plan
        found = {name: self.named(name).complete(calls) for name, calls in wanted.items()}
        return replace(plan, launches=tuple(_completed(launch, found) for launch in plan.launches))

    def release(self) -> None:
        """Give back what libraries hold on the device; they take it again when they need it."""
        for opened in self._open.values():
            opened.close()

    def close(self) -> None:
        """Close every operator library, even if one refuses; may be called twice."""
        self._open.clear()
        self._undo.close()


class Kernels(Protocol):
    """Kernels of a loaded library, here or on another device."""

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name, by address; an error if there is none."""
        ...


class LaunchCalls:
    """Calls of operator libraries that one executor makes, by the position of their launch.

    To be closed before the libraries that prepare them.
    """

    def __init__(self, libraries: OpenLibraries) -> None:
        self._libraries = libraries
        self._lanes: dict[tuple[LibraryLane, LibraryName], PreparedCalls] = {}
        self._calls: dict[int, PreparedCall] = {}
        self._undo = ExitStack()

    def kernel(self, position: int, launch: Launch, lane: LibraryLane) -> Kernel:
        """The call of an operator library that runs a launch, in the form of a kernel."""
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
        """Error of a launch that just failed, if its operator library failed."""
        call = self._calls.get(position)
        return None if call is None else call.failure(where)

    def constants_changed(self) -> None:
        """Have every call read its constants anew; a run under way may use the old ones."""
        for call in self._calls.values():
            call.constants_changed()

    def close(self) -> None:
        """Give back all memory of the calls, which must not be made any more."""
        self._lanes.clear()
        self._calls.clear()
        self._undo.close()


def kernels_of(
    plan: ExecutionPlan, library: Kernels, calls: LaunchCalls | None, lane: LibraryLane
) -> list[Kernel]:
    """Kernel of each launch of a plan on a processor, or its call of an operator library.

    Without ``calls`` TVM's kernels compute everything. Any lane may make the calls of one.
    """
    return [
        library.kernel(launch.kernel)
        if launch.call is None or calls is None
        else calls.kernel(position, launch, lane)
        for position, launch in enumerate(plan.launches)
    ]


def host_lane(runtime: NativeRuntime, code: ctypes.CDLL | None = None) -> LibraryLane:
    """A lane of this processor (any one), with TVM's own workspace of the calling thread.

    ``runtime`` splits regions; ``code`` is that of the model's kernels.
    """
    return LibraryLane(
        take_workspace=TvmFunction.TAKE_WORKSPACE.address,
        give_workspace=TvmFunction.GIVE_WORKSPACE.address,
        split_region=runtime.parallel_launch,
        code=code,
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
