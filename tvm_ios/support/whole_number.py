"""Whole numbers and flags from callers: counts, positions, options."""

from __future__ import annotations

import operator
from dataclasses import fields
from typing import Any

from tvm_ios.errors import OptionError

__all__ = ["as_whole", "require_flags", "require_whole", "require_whole_fields"]


def as_whole(value: Any) -> int | None:
    """A whole number of any kind, such as ``numpy.int64``, as ``int``; None for everything else.

    Truth values are no numbers here: they come from a mistake, as floats do.
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def require_whole(
    name: str, value: Any, *, least: int, most: int | None = None, note: str = ""
) -> int:
    """An option that is a whole number, as ``int``."""
    number = as_whole(value)
    if number is None or number < least or (most is not None and number > most):
        limits = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise OptionError(f"{name} is {value!r}; give a whole number {limits}{note}")
    return number


def require_whole_fields(options: Any, *, note: str = "", **bounds: int | tuple[int, int]) -> None:
    """Make fields of a frozen dataclass ``int``, checked against a least value or two bounds.

    A field whose default is None may keep it. The text ``note``, such as ``" (0 means no limit)"``,
    ends the message.
    """
    omitted = {field.name for field in fields(options) if field.default is None}
    for name, bound in bounds.items():
        value = getattr(options, name)
        if value is None and name in omitted:
            continue
        least, most = bound if isinstance(bound, tuple) else (bound, None)
        number = require_whole(name, value, least=least, most=most, note=note)
        # The only way to set a field of a frozen dataclass; called from its __post_init__.
        object.__setattr__(options, name, number)


def require_flags(options: Any) -> None:
    """Refuse other values than True and False in fields of a dataclass with such a default."""
    for each in fields(options):
        value = getattr(options, each.name)
        if isinstance(each.default, bool) and not isinstance(value, bool):
            raise OptionError(f"{each.name} is {value!r}; give True or False")
