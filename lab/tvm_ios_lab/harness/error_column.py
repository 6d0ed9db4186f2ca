"""The column of a table that holds the analytical model against what is published."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_ios_lab.harness.agreement import mean_error

__all__ = ["error_row", "error_text"]


def error_text(error: float | None) -> str:
    """A cell of the column: percents, signed; a dash where nothing is published."""
    return "-" if error is None else f"{error:+.0%}"


def error_row(errors: Iterable[float | None], *, width: int) -> list[tuple[str, ...]]:
    """The closing row, with the geometric mean of the errors in the last column.

    No row where there is no error.
    """
    known = [error for error in errors if error is not None]
    if not known:
        return []
    return [("geometric mean of errors", *["-"] * (width - 2), f"{mean_error(known):.1%}")]
