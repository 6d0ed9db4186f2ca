"""Names that are known, and the one that a mistyped name is near to."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tvm_ios.errors import OptionError

__all__ = ["did_you_mean", "require_known"]


def did_you_mean(name: str, known: Iterable[str], lead: str = "; ") -> str:
    """A question that ends a message: the nearest of the known names; empty if none is near."""
    close = get_close_matches(name, tuple(known), n=1)
    return f"{lead}did you mean {close[0]!r}?" if close else ""


def require_known(names: Iterable[str], known: tuple[str, ...], where: str) -> None:
    """Refuse a name that is none of the known ones; ``where`` begins the message."""
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known, ", ") or "."
            raise OptionError(f"{where}has no key {name!r}{meant} There are {', '.join(known)}")
