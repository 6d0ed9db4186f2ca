"""Error texts of programs and libraries: many lines, of which one matters."""

from __future__ import annotations

__all__ = ["lines_that_tell"]


def lines_that_tell(text: object, otherwise: str) -> list[str]:
    """Lines of a text or an error that are not blank; ``otherwise`` if all are."""
    return [line.strip() for line in str(text).splitlines() if line.strip()] or [otherwise]
