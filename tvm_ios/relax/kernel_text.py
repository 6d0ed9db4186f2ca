"""Texts of kernels: equal for kernels that compute the same, in every process.

TVM's structural hash has 64 bits, too few for a database of many users. Its script has every
digit, and names that depend on where a kernel came from; so names are numbered.
"""

from __future__ import annotations

import keyword
import re

import tvm

__all__ = ["kernel_text"]

NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w=])")
"""A name that stands alone: no field of another, no keyword of a call."""
QUOTED = re.compile(r'"[^"]*"')
DROPPED = re.compile(r"^\s*(#.*|from .*|T\.func_attr\(.*)\n", re.MULTILINE)
KEPT = frozenset({*keyword.kwlist, "T", "range"})


def kernel_text(function: tvm.tirx.PrimFunc) -> str:
    """Script of a kernel without attributes, names of blocks, and names of its own."""
    script = DROPPED.sub("", function.with_attr("global_symbol", "main").script())
    script = re.sub(r'T\.sblock\("[^"]*"\)', "T.sblock()", script)
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match.group()
        return name if name in KEPT else numbers.setdefault(name, f"v{len(numbers)}")

    # Types and axes are quoted, and stay.
    pieces = QUOTED.split(script)
    quoted = [*QUOTED.findall(script), ""]
    return "".join(
        NAME.sub(number, piece) + text for piece, text in zip(pieces, quoted, strict=True)
    )
