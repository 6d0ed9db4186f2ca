"""Strict reading of values from files: text is no number, true is none, and infinity is none.

Every reader of stored data (schedules, plans, recorded problems, benchmark records, the profile
database) asks a :class:`StoredValue`. Anything unexpected is refused with its place, never
converted and never a traceback.
"""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

__all__ = ["StoredValue", "UnreadableValueError", "parse_json"]

_Member = TypeVar("_Member", bound=Enum)
_Read = TypeVar("_Read")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60


class UnreadableValueError(ValueError):
    """A stored value that does not belong there; callers turn it into an error of their room.

    The message is one line: the place, the value, and what was expected.
    """


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value from a file, with its place there.

    Each method raises :class:`UnreadableValueError` where the value is of another kind.
    """

    value: Any
    """Value as ``json`` or ``sqlite3`` gave it."""
    where: str
    """Place of the value, such as ``stages[2].strategy``, for messages."""
    is_root: bool = False
    """True for a whole file: the names of its fields are places of their own."""

    def __str__(self) -> str:
        """The value on one short line."""
        text = _SHORT.repr(self.value)
        return text if len(text) <= 60 else text[:57] + "..."

    def field(self, name: str) -> StoredValue:
        """A field of an object."""
        found = self.optional_field(name)
        if found is None:
            raise UnreadableValueError(f"{self.where} lacks the field {name!r}; add it")
        return found

    def optional_field(self, name: str) -> StoredValue | None:
        """A field of an object, None where it is missing."""
        fields = self.value
        if not isinstance(fields, dict):
            raise self._unlike("an object")
        if name not in fields:
            return None
        return StoredValue(fields[name], name if self.is_root else f"{self.where}.{name}")

    def fields(self) -> dict[str, StoredValue]:
        """Every field of an object, by name."""
        if not isinstance(self.value, dict):
            raise self._unlike("an object")
        return {name: self.field(name) for name in self.value}

    def only(self, *known: str) -> StoredValue:
        """The object itself; refused if it has other fields than these."""
        for name in self.fields():
            if name not in known:
                raise UnreadableValueError(
                    f"{self.where} has the unknown field {name!r}; known are {', '.join(known)}"
                )
        return self

    def without(self, *names: str) -> StoredValue:
        """The object without these fields."""
        kept = {name: each.value for name, each in self.fields().items() if name not in names}
        return StoredValue(kept, self.where, self.is_root)

    def rows(self, count: int | None = None) -> list[StoredValue]:
        """The entries of a list; refused if their number is not `count`, where given."""
        if not isinstance(self.value, list):
            raise self._unlike("a list")
        if count is not None and len(self.value) != count:
            raise self._unlike(f"{count} entries")
        return [StoredValue(entry, f"{self.where}[{i}]") for i, entry in enumerate(self.value)]

    def or_none(self, read: Callable[[StoredValue], _Read]) -> _Read | None:
        """The value as `read` finds it, or None for null."""
        return None if self.value is None else read(self)

    def whole(self, least: int = 0, most: int | None = None) -> int:
        """A whole number between two bounds, both included."""
        value = self.value
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            limits = f"of {least} or more" if most is None else f"from {least} to {most}"
            raise self._unlike(f"a whole number {limits}")
        return int(value)

    def signed(self) -> int:
        """A whole number that may be below 0."""
        return self.whole(least=-sys.maxsize)

    def wholes(self, most: int | None = None) -> tuple[int, ...]:
        """The entries of a list of whole numbers from 0 on."""
        return tuple(entry.whole(most=most) for entry in self.rows())

    def number(self) -> float:
        """A finite number."""
        value = self.value
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # `not <=`, since NaN compares as false; and a whole number may be too large for a float.
        if not number or not abs(value) <= sys.float_info.max:
            raise self._unlike("a finite number")
        return float(value)

    def text(self) -> str:
        """The value, a string."""
        if not isinstance(self.value, str):
            raise self._unlike("text")
        return self.value

    def texts(self) -> tuple[str, ...]:
        """The entries of a list of strings."""
        return tuple(entry.text() for entry in self.rows())

    def flag(self) -> bool:
        """A truth value."""
        if not isinstance(self.value, bool):
            raise self._unlike("true or false")
        return self.value

    def member(self, kind: type[_Member]) -> _Member:
        """The member of an enumeration with this value."""
        for member in kind:
            if member.value == self.value:
                return member
        raise self._unlike(f"one of {', '.join(repr(member.value) for member in kind)}")

    def _unlike(self, wanted: str) -> UnreadableValueError:
        return UnreadableValueError(f"{self.where} is {self}; expected {wanted}")


def parse_json(text: str, name: str) -> StoredValue:
    """The value of a JSON text; ``name`` is for messages, such as ``the schedule``."""
    try:
        return StoredValue(json.loads(text), name, is_root=True)
    except (ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UnreadableValueError(f"{name} is no JSON ({reason})") from error
