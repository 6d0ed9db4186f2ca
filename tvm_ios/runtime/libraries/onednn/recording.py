"""oneDNN with its calls written down, so that C can make them again without Python. No TVM here.

What prepares a call of a model asks oneDNN for descriptors and primitives, and goes by what it says
of them: formats, sizes, and which code computes. These calls are noted as they are made, each with
what it took and gave or said. Version and instruction sets do not decide all of that, as oneDNN
looks at the sizes of caches, too; so C asks again.
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
    """Something that a noted call gave, by its number among all that were given."""

    number: int


NotedValue = Handle | int | float | tuple[int, ...] | None
"""An argument: a handle or none, a number, extents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCall:
    """A call that succeeded."""

    function: str
    arguments: tuple[NotedValue, ...]
    """Without the address that what is given is written to."""
    gives: Handle | None
    """None where a call changes its first argument only, or tells something."""
    told: int | str | None = None
    """What it said, where a decision was taken by that: a size, the name of code, 1 for equal and
    0 for unlike, or for a descriptor that is not there."""
    about: NotedValue
    """What it gives, changes, or tells something of."""


class RecordedOnednn(Onednn):
    """The functions of a oneDNN that is loaded, with what succeeds written down.

    Calls that destroy something are left out.
    """

    def __init__(self, library: Onednn) -> None:
        super().__init__(library.library, library.path, library.version)
        self._noted: list[NotedCall] = []
        self._handles: dict[int, Handle] = {}
        self._owners: dict[Handle, Handle] = {}
        """The primitive's descriptor that a memory descriptor is of."""

    def make(self, name: str, *arguments: Any, where: str = "") -> int:
        """The handle that a function gives, noted."""
        made = ctypes.c_void_p()
        super().call(name, ctypes.byref(made), *arguments, where=where)
        address = made.value or 0
        self._note(name, arguments, address)
        return address

    def call(self, name: str, *arguments: Any, where: str = "") -> None:
        """Call a function, noted where it changes something."""
        super().call(name, *arguments, where=where)
        if name != NAME and not name.endswith(_DROPS):
            self._note(name, arguments, 0)

    def descriptor_of(self, primitive: int, query: int, index: int = 0) -> int:
        """A memory descriptor of a primitive's descriptor, noted; 0 where it has none."""
        found = super().descriptor_of(primitive, query, index)
        owner = self._handles[primitive]
        if found:
            self._note(QUERY_DESCRIPTOR, (primitive, query, index), found)
            self._owners[self._handles[found]] = owner
        else:
            self._note_told(QUERY_DESCRIPTOR, (owner, query, index), 0, about=owner)
        return found

    def size_bytes(self, descriptor: int) -> int:
        """The bytes of a memory descriptor, noted."""
        found = super().size_bytes(descriptor)
        handle = self._handles[descriptor]
        self._note_told(SIZE, (handle,), found, about=self._owners.get(handle, handle))
        return found

    def equal(self, one: int, other: int) -> bool:
        """Whether two memory descriptors say the same, noted."""
        found = super().equal(one, other)
        first, second = self._handles[one], self._handles[other]
        if first != second:
            about = self._owners.get(second, second)
            self._note_told(EQUAL, (first, second), int(found), about=about)
        return found

    def name_of(self, primitive: int) -> str:
        """What oneDNN calls the code of a primitive's descriptor, noted."""
        found = super().name_of(primitive)
        owner = self._handles[primitive]
        self._note_told(NAME, (owner,), found, about=owner)
        return found

    def handle(self, address: int) -> Handle:
        """What lies at an address."""
        return self._handles[address]

    def needed_for(self, wanted: Iterable[Handle]) -> tuple[NotedCall, ...]:
        """The noted calls that some of what was given takes, or went by, in order."""
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
        """Of each argument, whether a whole number is an address."""
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
