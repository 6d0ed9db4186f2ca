"""Protocols of libraries that compute operators in place of TVM's kernels. No TVM.

An :class:`OperatorLibrary` is known without being there: it says which fused functions it computes
and reads and writes its calls, so a schedule is lowered on a machine that does not have it. Opened
on a device it is an :class:`OpenLibrary`, which finds out how each call is fastest, and prepares
calls for a lane or a stream. Executors, plans and prices know these protocols and no library.
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
        """The resource handle that the function is given: the call itself, as prepared."""
        ...

    def constants_changed(self) -> None:
        """Forget what was made of constants: their values are others. No run is under way."""
        ...

    def failure(self, where: str) -> ExecutionError | None:
        """The error of a call that just failed, None if it was not for the library.

        ``where`` is the operator, for the message.
        """
        ...


class PreparedCalls(Protocol):
    """A library on one lane or stream."""

    def prepare(self, call: Any, operator: str) -> PreparedCall:
        """Make a call ready, valid until this is closed.

        The call is one that ``complete`` gave; the operator is for messages.

        Raises
        ------
        ExecutionError
            If the library refuses the call.
        """
        ...

    def close(self) -> None:
        """Give back what was taken for the lane."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLane:
    """A lane or stream that calls run on, and what they may use there."""

    take_workspace: int
    """Address of a function with the signature of ``TVMBackendAllocWorkspace``, for this lane."""
    give_workspace: int
    """Address of one with that of ``TVMBackendFreeWorkspace``."""
    stream: int = 0
    """Handle of the stream; 0 on a CPU, where any lane may make any call."""
    split_region: int = 0
    """Address of a function with the signature of ``TVMBackendParallelLaunch``, whose tasks idle
    lanes take; 0 on a GPU."""
    code: ctypes.CDLL | None = None
    """The loaded kernels of the model, which may bring native code of the library along."""


class OpenLibrary(Protocol[Call]):
    """A library on one device."""

    def complete(self, calls: Iterable[Call]) -> Mapping[Call, Call | None]:
        """Each call with all that is found out on the device; None for one it does not make there.

        Raises
        ------
        ExecutionError
            If a search fails.
        """
        ...

    def price_name(self, call: Call) -> str:
        """All that changes the speed of a complete call, besides what it computes, in a word.

        Version of the library, algorithm, arithmetic: prices are kept under it.
        """
        ...

    def on_lane(self, lane: LibraryLane) -> PreparedCalls:
        """The library on one lane, to be closed before the lane and before this.

        Raises
        ------
        ExecutionError
            If the library refuses.
        """
        ...

    def as_text(self) -> str:
        """Name and version, for people."""
        ...

    def close(self) -> None:
        """Give everything back; twice is fine."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgram:
    """Native code of a library for one model, which takes the place of its native object."""

    source: str
    """In C: what makes calls, and ``tvm_ios_open_calls``, ``tvm_ios_close_calls`` and
    ``tvm_ios_explain_call``, as ``model_image.h`` has them."""
    function: str
    """Name of what makes a call, with the signature of TVM's kernels."""


class FactStore(Protocol):
    """Keeps what is found once, such as the profile database."""

    def get_facts(self, subject: str, names: Iterable[str]) -> Mapping[str, str]:
        """The facts known of a subject, by name."""
        ...

    def put_facts(self, subject: str, facts: Mapping[str, str]) -> None:
        """Keep what was found of a subject."""
        ...


class OperatorLibrary(Protocol):
    """A library with the options it is to be used with: a frozen value."""

    @property
    def name(self) -> LibraryName:
        """The library's name, unique among libraries."""
        ...

    @property
    def target_kind(self) -> str:
        """The kind of TVM target it computes for: ``llvm`` or ``cuda``."""
        ...

    @property
    def options_text(self) -> str:
        """The options, to follow the name, such as ``without TF32``; may be empty."""
        ...

    @property
    def image_layout(self) -> str | None:
        """The layout of images that its code is fastest in, tried beside a model's own.

        None where models stay in theirs.
        """
        ...

    def identity(self) -> str:
        """All that changes the speed of calls in general, in a line: name, version, options, code.

        Choices and races that had calls in force are kept under it.

        Raises
        ------
        HostError
            If the library is missing or does not fit.
        """
        ...

    def match(self, function: FusedFunction) -> CallDescriptor | None:
        """The call that computes a fused function; None where there is none."""
        ...

    def read_call(self, data: StoredValue) -> CallDescriptor:
        """Read what ``to_data`` of a call gave.

        Raises
        ------
        UnreadableValueError
            If a field is missing or of another kind.
        """
        ...

    def native_object(self) -> Path | None:
        """An object file that exported models bring along; None where none is needed.

        Raises
        ------
        HostError
            If there is no working C compiler.
        """
        ...

    def program(self, calls: Sequence[Any]) -> CallProgram | None:
        """Native code that makes the calls of a model ready where there is no Python.

        None where only Python can, or the library is not here. ``calls`` has a complete one of each
        launch.

        Raises
        ------
        ExecutionError
            If the library fails.
        """
        ...

    def require(self) -> None:
        """Find the library in this process.

        Raises
        ------
        HostError
            If it is missing or does not fit; the message says what to install.
        """
        ...

    def open(self, device: Any, store: FactStore | None) -> OpenLibrary[Any]:
        """The library on a device.

        Parameters
        ----------
        device
            Of the target's kind: a :class:`~tvm_ios.runtime.cuda.device.CudaDevice` for ``cuda``,
            and :data:`~tvm_ios.runtime.libraries.open_libraries.THIS_PROCESSOR` for ``llvm``.
        store
            Where it may keep what it finds out.

        Raises
        ------
        HostError
            If it is missing or does not fit.
        """
        ...
