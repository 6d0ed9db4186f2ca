"""Calls of operator libraries, which compute a launch in place of a kernel of TVM.

Nouns only: a plan stores calls and knows no library. What a library does with them is in
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
    """Name of an operator library, in files and for people."""

    key: str
    """Key in files, such as ``cudnn``."""
    title: str
    """Name for people, such as ``cuDNN``."""


class CallDescriptor(Protocol):
    """Description of a call for its operator library: a frozen value."""

    def fits(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """True if the call reads and writes these tensors, in the order of a launch."""
        ...

    def to_data(self) -> dict[str, Any]:
        """Data of the call for JSON; ``read_call`` of its library reads them back."""
        ...

    def as_text(self) -> str:
        """Computation of the call in a line, for messages."""
        ...


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Call of an operator library that computes a launch."""

    library: LibraryName
    descriptor: CallDescriptor

    def to_data(self) -> dict[str, object]:
        """Data of the call for JSON."""
        return {"library": self.library.key, "call": self.descriptor.to_data()}


CallReader = Callable[[StoredValue], LibraryCall]
"""Reader of :meth:`LibraryCall.to_data`'s data; raises UnreadableValueError for others."""


def no_calls(data: StoredValue) -> LibraryCall:
    """Reader of calls that knows no operator library: it refuses each."""
    raise UnreadableValueError(
        f"{data.where} is a call of a library, and no libraries are known here; read the plan with "
        "read_call=tvm_ios.runtime.libraries.known.read_call"
    )
