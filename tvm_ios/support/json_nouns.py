"""Frozen dataclasses as JSON, read back strictly by their type hints.

A field whose hint names several dataclasses holds an object with one key, the name of the class.
Unknown fields are refused. Missing fields have their defaults in messages, which an older program
may have sent, and are refused in files, which are written as wholes.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = ["Signed", "from_json", "noun_from", "noun_record", "to_json"]

NounT = TypeVar("NounT")
Signed: TypeAlias = Annotated[int, "signed"]
"""Hint of whole numbers that may be below 0."""
_PLAIN: Mapping[Any, Callable[[StoredValue], Any]] = {
    str: StoredValue.text,
    int: StoredValue.whole,
    Signed: StoredValue.signed,
    float: StoredValue.number,
    bool: StoredValue.flag,
}


def to_json(hint: Any, value: Any) -> str:
    """JSON of a noun on one line; the hint is its class, or a union of classes."""
    return json.dumps(noun_record(hint, value), separators=(",", ":"))


def from_json(hint: Any, text: str, name: str) -> Any:
    """Noun that :func:`to_json` wrote; ``name`` is for messages, such as ``the request``."""
    return _read(hint, parse_json(text, name), whole=False)


def noun_from(
    kind: type[NounT],
    stored: StoredValue,
    *,
    whole: bool = False,
    **readers: Callable[[StoredValue], Any],
) -> NounT:
    """A dataclass read from a stored value; ``whole`` demands fields that have defaults, too.

    ``readers`` read the values of some fields, by name, in place of their type hints.
    """
    hints = _hints(cast("Hashable", kind))
    stored.only(*hints)
    required = {
        each.name
        for each in fields(kind)  # type: ignore[arg-type]
        if whole or (each.default is MISSING and each.default_factory is MISSING)
    }
    read = {}
    for name, hint in hints.items():
        found = stored.field(name) if name in required else stored.optional_field(name)
        if found is not None:
            own = readers.get(name)
            read[name] = _read(hint, found, whole) if own is None else own(found)
    return kind(**read)


def noun_record(hint: Any, value: Any) -> Any:
    """Plain data for ``json`` that stand for a value."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [noun_record(Any, each) for each in value]
    if isinstance(value, Mapping):
        return {key: noun_record(Any, each) for key, each in value.items()}
    if not is_dataclass(value):
        return value
    hints = _hints(cast("Hashable", type(value)))
    record = {name: noun_record(hints[name], getattr(value, name)) for name in hints}
    return {type(value).__name__: record} if len(_classes(hint)) > 1 else record


def _read(hint: Any, stored: StoredValue, whole: bool) -> Any:
    if hint is Any:
        return stored.value
    if hint in _PLAIN:
        return _PLAIN[hint](stored)
    if type(None) in get_args(hint):
        (rest,) = (each for each in get_args(hint) if each is not type(None))
        return stored.or_none(lambda value: _read(rest, value, whole))
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), stored, whole)
    if get_origin(hint) is not None and get_origin(hint) not in (Union, types.UnionType):
        value_hint = get_args(hint)[1]
        return {name: _read(value_hint, each, whole) for name, each in stored.fields().items()}
    classes = _classes(hint)
    if len(classes) > 1:
        return _tagged(classes, stored, whole)
    if issubclass(hint, Enum):
        return stored.member(hint)
    return noun_from(hint, stored, whole=whole)


def _tuple(kinds: tuple[Any, ...], stored: StoredValue, whole: bool) -> tuple[Any, ...]:
    if len(kinds) == 2 and kinds[1] is ...:
        return tuple(_read(kinds[0], row, whole) for row in stored.rows())
    return tuple(
        _read(kind, row, whole) for kind, row in zip(kinds, stored.rows(len(kinds)), strict=True)
    )


def _tagged(classes: Mapping[str, Any], stored: StoredValue, whole: bool) -> Any:
    found = stored.fields()
    if len(found) != 1 or next(iter(found)) not in classes:
        raise UnreadableValueError(
            f"{stored.where} is {stored}; expected an object with one of {', '.join(classes)}"
        )
    ((name, value),) = found.items()
    return noun_from(classes[name], value, whole=whole)


@cache
def _classes(hint: Hashable) -> Mapping[str, Any]:
    """Dataclasses that a type hint names, by name."""
    kinds: tuple[Any, ...] = get_args(hint) or (hint,)
    return {kind.__name__: kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)}


@cache
def _hints(kind: Hashable) -> Mapping[str, Any]:
    return get_type_hints(cast("Any", kind), include_extras=True)
