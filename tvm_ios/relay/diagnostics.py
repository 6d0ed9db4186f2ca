"""Messages of TVM about an error in Relay, gathered for an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.ir import diagnostics

__all__ = ["collected_diagnostics"]


@contextmanager
def collected_diagnostics() -> Iterator[list[str]]:
    """Context whose list gets messages of TVM's parser and type checker, each with its line if any.

    TVM would print the source around them, and fails where the module has none.
    """
    found: list[str] = []

    def collect(context: Any) -> None:
        for each in context.diagnostics:
            said = " ".join(str(each.message).split())
            # What an importer made has names of layers in place of lines.
            known = each.span is not None and each.span.line > 0
            where = f"line {each.span.line}, column {each.span.column}: " if known else ""
            found.append(where + said)

    diagnostics.override_renderer(collect)
    try:
        yield found
    finally:
        diagnostics.override_renderer(None)
