"""Efficiencies of makers by kind and shape of operators: what share of its bound a kernel reaches.

Comes before any price: with the speeds of a lane they predict one. The tables beside this file, one
for each dialect of TVM, were measured on networks, by ``tvm_ios_lab.scripts.efficiencies``.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Self

from tvm_ios.core.graph import Operator
from tvm_ios.support.json_nouns import noun_from
from tvm_ios.support.stored_value import parse_json

__all__ = [
    "UNKNOWN",
    "Balance",
    "Efficiencies",
    "Efficiency",
    "ShapeClass",
    "Size",
    "Spread",
    "kind_of",
    "table_of",
]

FOLLOWING = re.compile(
    "_(?:add|subtract|multiply|divide|maximum|minimum|power|negative|relu|leakyrelu|clip|sigmoid|"
    "tanh|gelu|silu|softplus|erf|exp|log|sqrt|rsqrt|where|less|cast|reshape|squeeze)(?:_|$).*"
)
"""End of a kind of Relax, whose kernels name all that they compute: what costs next to nothing
behind the first."""


def table_of(dialect: str) -> Path:
    """File with the table for a dialect, which comes with the library: its kernels are its own."""
    return Path(__file__).with_name(f"efficiencies_{dialect}.json")


class Balance(Enum):
    """Balance of computing and moving in an operator, by floating-point operations a byte."""

    MOVES = "moves"
    """Fewer than 2 operations a byte."""
    MIXED = "mixed"
    """Fewer than 16."""
    COMPUTES = "computes"


class Size(Enum):
    """Bytes that an operator reads and writes, against the caches of usual cores."""

    TINY = "tiny"
    """Up to 8 KiB: most of the time is the start of the kernel."""
    SMALL = "small"
    """Up to 64 KiB."""
    MEDIUM = "medium"
    """Up to 1 MiB."""
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class ShapeClass:
    """Class of shapes whose kernels reach about the same share of their bound."""

    balance: Balance
    size: Size

    @classmethod
    def of(cls, operator: Operator) -> Self:
        """Class of an operator."""
        size = operator.memory_bytes
        flops_a_byte = operator.flops / max(1, size)
        return cls(
            Balance.MOVES
            if flops_a_byte < 2
            else Balance.MIXED
            if flops_a_byte < 16
            else Balance.COMPUTES,
            Size.TINY
            if size <= 1 << 13
            else Size.SMALL
            if size <= 1 << 16
            else Size.MEDIUM
            if size <= 1 << 20
            else Size.LARGE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Factors within which two thirds of times lie around the one that is told.

    They differ: some kernels are far slower than others of their class, and none far faster.
    """

    faster: float = 1.0
    """Factor by which one time in six is lower, or more; at least 1."""
    slower: float = 1.0
    """Factor by which one time in six is higher, or more; at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Efficiency of a maker's kernels, as measured on some operators; a row of the table."""

    kind: str
    """Kind as :func:`kind_of` tells it; empty for all kinds."""
    balance: Balance | None
    """Balance of operations and bytes; None for rows of every balance."""
    size: Size | None
    """Size of the operator; None for rows of every size."""
    maker: str
    """Key of an operator library, or ``tvm``."""
    reached: float
    """Share of the bound on one lane that they reach in the middle."""
    serial: float
    """Share of the time on one lane that idle lanes cannot take over, in the middle."""
    spread: Spread
    """Spread of the times around that of the middle."""
    count: int
    """Number of distinct operators that were measured."""

    def speedup(self, lanes: int) -> float:
        """Time on one lane over that on some number of lanes, by Amdahl's law."""
        return 1 / (self.serial + (1 - self.serial) / lanes)


def kind_of(operator: Operator) -> str:
    """Kind of what an operator computes first, with its layout where that decides who is fast."""
    kind, convolution = FOLLOWING.sub("", operator.kind), operator.convolution
    if convolution is not None and convolution.layout.startswith("NHWC"):
        return f"{kind}{CHANNELS_LAST}"
    return kind


def _kinds(operator: Operator) -> tuple[str, ...]:
    """Kinds whose rows may answer for an operator, the nearest first; the empty one has all."""
    kind = kind_of(operator)
    return tuple(dict.fromkeys((kind, kind.removesuffix(CHANNELS_LAST), "")))


CHANNELS_LAST = ", channels last"
UNKNOWN = Spread(faster=3.0, slower=3.0)
"""Spread where no row is of the maker."""
_Key = tuple[str, Balance | None, Size | None, str]


class Efficiencies:
    """Table of efficiencies; where it lacks a row, coarser ones answer, pooled from its rows."""

    def __init__(self, rows: Iterable[Efficiency]) -> None:
        self.rows = tuple(rows)
        pools: dict[_Key, list[Efficiency]] = defaultdict(list)
        for row in self.rows:
            for kind in (row.kind, ""):
                pools[kind, row.balance, row.size, row.maker].append(row)
                pools[kind, None, None, row.maker].append(row)
        self._pooled = {key: _pooled(key, pool) for key, pool in pools.items()}

    def of(self, operator: Operator, maker: str) -> Efficiency:
        """Efficiency of a maker at an operator, from the nearest class that has rows.

        First the kind in its class, then the kind, then all kinds in that class, then all.
        """
        shape = ShapeClass.of(operator)
        keys = [
            key
            for kind in _kinds(operator)
            for key in ((kind, shape.balance, shape.size, maker), (kind, None, None, maker))
        ]
        found = (self._pooled[key] for key in keys if key in self._pooled)
        unknown = Efficiency(
            kind="",
            balance=None,
            size=None,
            maker=maker,
            reached=0.5,
            serial=0.5,
            spread=UNKNOWN,
            count=0,
        )
        return next(found, unknown)

    def to_json(self, origin: dict[str, Any]) -> str:
        """JSON of the table, a row a line, with what its measurement was."""
        rows = ",\n".join(json.dumps(_record(row)) for row in self.rows)
        return f'{{"origin": {json.dumps(origin)},\n"rows": [\n{rows}\n]}}\n'

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Table that :meth:`to_json` wrote.

        Raises
        ------
        UnreadableValueError
            If a row is not one.
        """
        stored = parse_json(text, "the table of efficiencies")
        return cls(noun_from(Efficiency, row, whole=True) for row in stored.field("rows").rows())

    @classmethod
    @cache
    def shipped(cls, dialect: str) -> Self:
        """Table for a dialect that comes with the library."""
        return cls.from_json(table_of(dialect).read_text("utf-8"))


def _record(row: Efficiency) -> dict[str, Any]:
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in asdict(row).items()
    }


def _pooled(key: _Key, rows: list[Efficiency]) -> Efficiency:
    """Row that stands for several: geometric means by counts, and a spread that covers theirs."""
    if len(rows) == 1:
        return rows[0]
    kind, balance, size, maker = key
    count = sum(row.count for row in rows)
    middle = sum(row.count * math.log(row.reached) for row in rows) / count

    def covering(side: Callable[[Efficiency], float], sign: int) -> float:
        """Factor for one side: the rows' own, and those of rows that lie on this side."""
        squares = (
            row.count
            * (math.log(side(row)) ** 2 + max(0.0, sign * (math.log(row.reached) - middle)) ** 2)
            for row in rows
        )
        return math.exp(math.sqrt(sum(squares) / count))

    return Efficiency(
        kind=kind,
        balance=balance,
        size=size,
        maker=maker,
        reached=math.exp(middle),
        serial=sum(row.count * row.serial for row in rows) / count,
        spread=Spread(
            faster=covering(lambda row: row.spread.faster, 1),
            slower=covering(lambda row: row.spread.slower, -1),
        ),
        count=count,
    )
