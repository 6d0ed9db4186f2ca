"""Tables of TOML that a user wrote, read within bounds: whatever is beyond them is one error."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tvm_ios.support.stored_value import UnreadableValueError

__all__ = ["LARGEST_TOML", "parse_toml", "read_toml"]

LARGEST_TOML = 1 << 20
"""Characters that a text may have."""
MOST_DOTS = 100
"""Dots that a key may have: tomllib takes quadratic time for them."""
DEEPEST = 32
"""Tables and lists that may lie in each other."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file."""
    with path.open(encoding="utf-8") as file:
        return parse_toml(file.read(LARGEST_TOML + 1), "this")


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The tables of a text; ``name`` is for messages, such as ``the body``."""
    if len(text) > LARGEST_TOML:
        raise UnreadableValueError(f"{name} has more than {LARGEST_TOML} characters; shorten it")
    if any(part.count(".") > MOST_DOTS for part in re.split("[=,\n]", text)):
        raise UnreadableValueError(
            f"{name} has a key of more than {MOST_DOTS} dots, or such a text or comment; shorten it"
        )
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableValueError(f"{name} is no TOML: {error}") from error
    _require_bounded(tables, name)
    return tables


def _require_bounded(value: Any, name: str, depth: int = 0) -> None:
    """Refuse tables that later steps could neither copy nor print."""
    if depth > DEEPEST:
        raise UnreadableValueError(f"{name} is nested more than {DEEPEST} deep; make it flatter")
    if isinstance(value, int) and value.bit_length() > 63:
        raise UnreadableValueError(f"{name} has an integer of more than 64 bits; shorten it")
    if isinstance(value, str) and "\0" in value:
        raise UnreadableValueError(f"{name} has a text with the character NUL; take it out")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _require_bounded(each, name, depth + 1)
