"""What programs and libraries say when something fails: many lines, of which one tells."""

from __future__ import annotations

__all__ = ["lines_that_tell"]


def lines_that_tell(text: object, otherwise: str) -> list[str]:
    """Lines of a text, or of an error, without those that are blank; ``otherwise`` if all are."""
    return [line.strip() for line in str(text).splitlines() if line.strip()] or [otherwise]
