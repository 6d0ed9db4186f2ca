"""Question whether what is built may differ from stock TVM in the last bits of its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["bits_may_change", "exact_bits"]

_EXACT: ContextVar[bool] = ContextVar("exact bits", default=False)


def bits_may_change() -> bool:
    """True if a faster computation may round in other places than stock TVM does.

    It may everywhere but within ``exact_bits(True)``. A new thread begins with True.
    """
    return not _EXACT.get()


@contextmanager
def exact_bits(wanted: bool) -> Iterator[None]:
    """Context in which models are prepared, lowered, tuned and built with stock TVM's bits.

    ``wanted`` is ``BuildOptions.exact``; False changes nothing.
    """
    token = _EXACT.set(wanted or _EXACT.get())
    try:
        yield
    finally:
        _EXACT.reset(token)
