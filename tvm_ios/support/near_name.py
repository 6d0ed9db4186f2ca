"""The known name that a mistyped one is near to."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str], lead: str = "; ") -> str:
    """A question that ends a message: the nearest of the known names; empty if none is near."""
    close = get_close_matches(name, tuple(known), n=1)
    return f"{lead}did you mean {close[0]!r}?" if close else ""
