"""Text as a terminal or a log may have it: names from files and users cannot move the cursor.

Control characters, escape sequences and marks of direction are shown as Python writes them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, TextIO, cast

__all__ = ["PrintableStream", "printable", "printable_output"]


def printable(text: str, keep: str = "\n\t") -> str:
    r"""The text with all that does not print escaped, but for the characters to keep.

    Examples
    --------
    >>> printable("conv\x1b[2J")
    'conv\\x1b[2J'
    """
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode()
        for each in text
    )


@dataclass(frozen=True, slots=True)
class PrintableStream:
    """A stream that writes printable text into another, and is like it in all else."""

    raw: TextIO
    """The stream behind, where pictures are drawn."""

    def write(self, text: str) -> int:
        """Write the text, escaped where it does not print."""
        return self.raw.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        """Whatever else the other stream has."""
        return getattr(self.raw, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Escape what this process prints inside on its standard streams."""
    out, err = (cast("TextIO", PrintableStream(each)) for each in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield
