"""Places of a JSON value, for tests that change each in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["places"]

Path = tuple[str | int, ...]


def places(data: Any, path: Path = ()) -> Iterator[Path]:
    """The paths to all that an object or a list holds, however deep."""
    entries = data.items() if isinstance(data, dict) else ()
    for key, value in enumerate(data) if isinstance(data, list) else entries:
        yield (*path, key)
        yield from places(value, (*path, key))
