"""Whole numbers that a caller gives: counts, positions, options."""

from __future__ import annotations

import operator
from typing import Any

from tvm_ios.errors import OptionError

__all__ = ["as_whole", "require_whole", "require_whole_fields"]


def as_whole(value: Any) -> int | None:
    """A whole number of any kind, such as ``numpy.int64``; None for everything else.

    Truth values are no numbers here: they come from a mistake, as floats do.
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def require_whole(name: str, value: Any, *, least: int) -> int:
    """An option that is a whole number, as ``int``.

    Raises
    ------
    OptionError
        If it is none, or too small; the message names the option, its value and the least allowed.
    """
    number = as_whole(value)
    if number is None or number < least:
        raise OptionError(f"{name} is {value!r}; give a whole number of {least} or more")
    return number


def require_whole_fields(options: Any, **least: int) -> None:
    """Make these fields of a frozen dataclass ``int``, each of its least value or more."""
    for name, bound in least.items():
        # The only way to set a field of a frozen dataclass; called from its __post_init__.
        object.__setattr__(options, name, require_whole(name, getattr(options, name), least=bound))
