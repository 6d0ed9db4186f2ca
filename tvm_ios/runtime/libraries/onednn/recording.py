"""oneDNN with its calls written down, so that C can make them again without Python. No TVM here.

To prepare a model's call is to ask oneDNN for descriptors and primitives, and to go by its answers:
formats, sizes, and which code computes. These calls are noted as they are made, each with arguments
and answer. Version and instruction sets do not decide all answers, since oneDNN also looks at the
sizes of caches; so C asks again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import Array
from dataclasses import dataclass
from typing import Any

from tvm_ios.runtime.libraries.onednn.library import Onednn

__all__ = ["Handle", "NotedCall", "NotedValue", "RecordedOnednn"]

QUERY_DESCRIPTOR = "dnnl_primitive_desc_query_md"
SIZE, EQUAL = "dnnl_memory_desc_get_size", "dnnl_memory_desc_equal"
NAME = "dnnl_primitive_desc_query"
_DROPS = "_destroy"


@dataclass(frozen=True, slots=True)
class Handle:
    """Something that a noted call gave, by its number among all noted calls."""

    number: int


NotedValue = Handle | int | float | tuple[int, ...] | None
"""An argument of a noted call: a handle or none, a number, extents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCall:
    """A call of oneDNN that succeeded, with its arguments and its answer."""

    function: str
    arguments: tuple[NotedValue, ...]
    """Arguments without the address that a new handle is written to."""
    gives: Handle | None
    """Handle of what the call makes; None where it changes its first argument only, or answers."""
    told: int | str | None = None
    """Answer that a decision was taken by: a size, the name of code, 1 for equal and 0 for unlike
    or for a descriptor that is not there; None for calls that answer nothing."""
    about: NotedValue
    """Handle that the call gives, changes, or answers about."""


class RecordedOnednn(Onednn):
    """The functions of a loaded oneDNN, with the calls that succeed noted.

    Calls that destroy something are left out.
    """

    def __init__(self, library: Onednn) -> None:
        super().__init__(library.library, library.path, library.version)
        self._noted: list[NotedCall] = []
        self._handles: dict[int, Handle] = {}
        self._owners: dict[Handle, Handle] = {}
        """Descriptor of the primitive that each memory descriptor belongs to."""

    def make(self, name: str, *arguments: Any, where: str = "") -> int:
        """Handle that a function makes; the call is noted."""
        made = ctypes.c_void_p()
        super().call(name, ctypes.byref(made), *arguments, where=where)
        address = made.value or 0
        self._note(name, arguments, address)
        return address

    def call(self, name: str, *arguments: Any, where: str = "") -> None:
        """Call a function; noted where it changes something."""
        super().call(name, *arguments, where=where)
        if name != NAME and not name.endswith(_DROPS):
            self._note(name, arguments, 0)

    def descriptor_of(self, primitive: int, query: int, index: int = 0) -> int:
        """Memory descriptor of a primitive's descriptor, 0 if it has none; the call is noted."""
        found = super().descriptor_of(primitive, query, index)
        owner = self._handles[primitive]
        if found:
            self._note(QUERY_DESCRIPTOR, (primitive, query, index), found)
            self._owners[self._handles[found]] = owner
        else:
            self._note_told(QUERY_DESCRIPTOR, (owner, query, index), 0, about=owner)
        return found

    def size_bytes(self, descriptor: int) -> int:
        """Bytes of the memory that a descriptor describes; the call is noted."""
        found = super().size_bytes(descriptor)
        handle = self._handles[descriptor]
        self._note_told(SIZE, (handle,), found, about=self._owners.get(handle, handle))
        return found

    def equal(self, one: int, other: int) -> bool:
        """True if two memory descriptors describe the same layout; the call is noted."""
        found = super().equal(one, other)
        first, second = self._handles[one], self._handles[other]
        if first != second:
            about = self._owners.get(second, second)
            self._note_told(EQUAL, (first, second), int(found), about=about)
        return found

    def name_of(self, primitive: int) -> str:
        """Name that oneDNN gives the code of a primitive's descriptor; the call is noted."""
        found = super().name_of(primitive)
        owner = self._handles[primitive]
        self._note_told(NAME, (owner,), found, about=owner)
        return found

    def handle(self, address: int) -> Handle:
        """Handle of the object at an address."""
        return self._handles[address]

    def needed_for(self, wanted: Iterable[Handle]) -> tuple[NotedCall, ...]:
        """Noted calls that the given handles take or went by, in order."""
        needed = set(wanted)
        kept = []
        for call in reversed(self._noted):
            # What is changed, or told something of, is used only later.
            if call.about in needed:
                needed.update(each for each in call.arguments if isinstance(each, Handle))
                kept.append(call)
        return tuple(reversed(kept))

    def _note(self, name: str, arguments: tuple[Any, ...], address: int) -> None:
        values = tuple(map(self._value, arguments, self._are_addresses(name, bool(address))))
        gives = Handle(len(self._noted)) if address else None
        if gives is not None:
            self._handles[address] = gives
        about = values[0] if gives is None else gives
        self._noted.append(NotedCall(function=name, arguments=values, gives=gives, about=about))

    def _note_told(
        self, name: str, arguments: tuple[NotedValue, ...], told: int | str, *, about: Handle
    ) -> None:
        self._noted.append(
            NotedCall(function=name, arguments=arguments, gives=None, told=told, about=about)
        )

    def _are_addresses(self, name: str, gives: bool) -> tuple[bool, ...]:
        """Flags, one an argument of a function: True if a whole number is an address."""
        if name == QUERY_DESCRIPTOR:
            return (True, False, False)
        kinds = self.prototype(name)
        return tuple(kind is ctypes.c_void_p for kind in kinds[1 if gives else 0 :])

    def _value(self, argument: Any, is_address: bool) -> NotedValue:
        if isinstance(argument, Array):
            return tuple(int(each) for each in argument)
        if is_address:
            return self._handles[argument] if argument else None
        number: int | float = argument
        return number
