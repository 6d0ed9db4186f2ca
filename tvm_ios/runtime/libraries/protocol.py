"""Protocols of operator libraries, which compute operators in place of TVM's kernels. No TVM.

An :class:`OperatorLibrary` says which fused functions it computes, and reads and writes its calls;
it need not be installed, so a schedule can be lowered on a machine without it. Opened on a device
it is an :class:`OpenLibrary`, which finds out how each call is fastest, and prepares calls for a
lane or a stream. Executors, plans and prices know these protocols and no library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.errors import ExecutionError
from tvm_ios.plan.library_call import CallDescriptor, LibraryName
from tvm_ios.support.stored_value import StoredValue

__all__ = [
    "CallProgram",
    "FactStore",
    "LibraryLane",
    "OpenLibrary",
    "OperatorLibrary",
    "PreparedCall",
    "PreparedCalls",
]

Call = TypeVar("Call", bound="CallDescriptor")


class PreparedCall(Protocol):
    """A call, ready to be made from C again and again, with the signature of TVM's kernels."""

    @property
    def function(self) -> int:
        """Address of the function that makes the call."""
        ...

    @property
    def resource(self) -> int:
        """Resource handle for the function: address of the prepared call."""
        ...

    def constants_changed(self) -> None:
        """Forget what was made of constants, as their values changed. No run is under way."""
        ...

    def failure(self, where: str) -> ExecutionError | None:
        """Error of a call that just failed; None if the operator library did not fail.

        ``where`` is the operator, for the message.
        """
        ...


class PreparedCalls(Protocol):
    """An operator library on one lane or stream."""

    def prepare(self, call: Any, operator: str) -> PreparedCall:
        """Make a call ready, valid until :meth:`close`.

        The call is one that ``complete`` gave; the operator is for messages.

        Raises
        ------
        ExecutionError
            If the library refuses the call.
        """
        ...

    def close(self) -> None:
        """Give back all memory and handles of the lane."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLane:
    """A lane or stream that calls run on, and the functions they may use there."""

    take_workspace: int
    """Address of a function with the signature of ``TVMBackendAllocWorkspace``, for this lane."""
    give_workspace: int
    """Address of a function with the signature of ``TVMBackendFreeWorkspace``, for this lane."""
    stream: int = 0
    """Handle of the stream; 0 on a CPU, where any lane may make any call."""
    split_region: int = 0
    """Address of a function with the signature of ``TVMBackendParallelLaunch``, whose tasks idle
    lanes take; 0 on a GPU."""
    code: ctypes.CDLL | None = None
    """Loaded kernels of the model, which may hold native code of the operator library."""


class OpenLibrary(Protocol[Call]):
    """An operator library on one device."""

    def complete(self, calls: Iterable[Call]) -> Mapping[Call, Call | None]:
        """Calls with all facts found out on the device; the value is None where it computes none.

        Raises
        ------
        ExecutionError
            If a search fails.
        """
        ...

    def price_name(self, call: Call) -> str:
        """Text that names everything that changes the speed of a complete call, beside its content.

        Version of the library, algorithm, arithmetic: prices are stored under it.
        """
        ...

    def found_ns(self, call: Call) -> int | None:
        """Nanoseconds of a complete call on the whole device, as facts about it were found out.

        None where it was not timed.
        """
        ...

    def on_lane(self, lane: LibraryLane) -> PreparedCalls:
        """The operator library on one lane, to be closed before the lane and before this.

        Raises
        ------
        ExecutionError
            If the library refuses.
        """
        ...

    def as_text(self) -> str:
        """Name and version of the operator library, for people."""
        ...

    def close(self) -> None:
        """Give back all memory and handles; may be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgram:
    """Calls of an operator library as data, for its native object to make ready without Python.

    The object has ``tvm_ios_open_calls``, ``tvm_ios_close_calls`` and ``tvm_ios_explain_call``, as
    ``library_calls.h`` declares them.
    """

    calls: tuple[bytes, ...]
    """Data of each call in whole numbers of 8 bytes, in the order of the launches."""
    function: str
    """Name of the function that makes a call, with the signature of TVM's kernels."""


class FactStore(Protocol):
    """A store of facts that are found out once, such as the profile database."""

    def get_facts(self, subject: str, names: Iterable[str]) -> Mapping[str, str]:
        """Known facts about a subject, by name."""
        ...

    def put_facts(self, subject: str, facts: Mapping[str, str]) -> None:
        """Store facts about a subject."""
        ...


class OperatorLibrary(Protocol):
    """An operator library with its options: a frozen value."""

    @property
    def name(self) -> LibraryName:
        """Name of the library, unique among operator libraries."""
        ...

    @property
    def target_kind(self) -> str:
        """Kind of TVM target that the library computes for: ``llvm`` or ``cuda``."""
        ...

    @property
    def options_text(self) -> str:
        """Options as text that follows the name, such as ``without TF32``; may be empty."""
        ...

    @property
    def image_layout(self) -> str | None:
        """Layout of images in which the library is fastest, tried beside a model's own.

        None where models keep their own.
        """
        ...

    def identity(self) -> str:
        """Text that names everything that changes the speed of calls: name, version, options, code.

        Choices and races that were made with the library are stored under it.

        Raises
        ------
        HostError
            If the library is missing or does not fit.
        """
        ...

    def speeds_up(self, dtype: str) -> bool:
        """True if products in a data type are faster than in float32 where the library computes.

        Raises
        ------
        HostError
            If the library is missing or does not fit.
        """
        ...

    def files(self) -> tuple[Path, ...]:
        """Files, there or not, that decide what is loaded; found without loading anything."""
        ...

    def match(self, function: FusedFunction) -> CallDescriptor | None:
        """Call that computes a fused function; None where there is none."""
        ...

    def read_call(self, data: StoredValue) -> CallDescriptor:
        """Call in the data of its ``to_data``.

        Raises
        ------
        UnreadableValueError
            If a field is missing or of another kind.
        """
        ...

    def native_object(self) -> Path | None:
        """Object file that exported models bring along; None where none is needed.

        Raises
        ------
        HostError
            If there is no working C compiler.
        """
        ...

    def program(self, calls: Sequence[Any]) -> CallProgram | None:
        """The calls of a model as data, for C; None where only Python makes them ready.

        ``calls`` has the call of each launch.
        """
        ...

    def require(self, device: Any = None) -> OperatorLibrary:
        """The library as it is installed on a device, in this process where omitted.

        Raises
        ------
        HostError
            If it is missing or does not fit; the message says what to install.
        """
        ...

    def open(self, device: Any, store: FactStore | None) -> OpenLibrary[Any]:
        """The operator library opened on a device.

        Parameters
        ----------
        device
            Of the target's kind: a :class:`~tvm_ios.runtime.gpu.device.CudaDevice` for ``cuda``,
            and a :class:`~tvm_ios.runtime.libraries.processor.Processor` for ``llvm``.
        store
            Facts that were found out before; new ones are added.

        Raises
        ------
        HostError
            If it is missing or does not fit.
        """
        ...
