"""Calls of libraries that compute a launch in place of a kernel of TVM.

Nouns only: a plan stores calls and does not know any library. What a library does with them is in
``runtime/libraries/``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm_ios.core.fused_function import TensorType
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError

__all__ = ["CallDescriptor", "CallReader", "LibraryCall", "LibraryName", "no_calls"]


@dataclass(frozen=True, slots=True)
class LibraryName:
    """The name of a library."""

    key: str
    """The name in files, such as ``cudnn``."""
    title: str
    """The name for people, such as ``cuDNN``."""


class CallDescriptor(Protocol):
    """Everything a library has to know of a call: a frozen value of its own."""

    def fits(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """True if the call reads and writes these tensors, in the order of a launch."""
        ...

    def to_data(self) -> dict[str, Any]:
        """The call for JSON; ``read_call`` of its library reads it back."""
        ...

    def as_text(self) -> str:
        """The computation in a line, for messages."""
        ...


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """The call of a library that computes a launch."""

    library: LibraryName
    descriptor: CallDescriptor

    def to_data(self) -> dict[str, object]:
        """The call for JSON."""
        return {"library": self.library.key, "call": self.descriptor.to_data()}


CallReader = Callable[[StoredValue], LibraryCall]
"""Reads what :meth:`LibraryCall.to_data` gave; raises UnreadableValueError where it cannot."""


def no_calls(data: StoredValue) -> LibraryCall:
    """A reader of calls where no library is known: it refuses each."""
    raise UnreadableValueError(
        f"{data.where} is a call of a library, and no libraries are known here; read the plan with "
        "read_call=tvm_ios.runtime.libraries.known.read_call"
    )
