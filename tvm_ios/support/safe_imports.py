"""Python processes that import nothing from the working directory, be they started by TVM."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["SAFE_PATH", "safe_imports"]

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable that does what ``python -P`` does, and is inherited."""
_LOCK = threading.Lock()
_BEFORE: list[str | None] = []
"""Value of the variable before each open block: the caller's own one first, then ours."""


@contextmanager
def safe_imports() -> Iterator[None]:
    """Python processes started inside import nothing from the working directory.

    TVM gives its workers a command of its own, so only the environment reaches them. Blocks of
    several threads may overlap: the last one to end puts the caller's variable back.
    """
    with _LOCK:
        _BEFORE.append(os.environ.get(SAFE_PATH))
        os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        with _LOCK:
            before = _BEFORE.pop()
            if before is None:
                del os.environ[SAFE_PATH]
            else:
                os.environ[SAFE_PATH] = before
