"""Axes of a computation along which everything it reads lies side by side in memory.

Loops over such axes are one loop over memory, whatever the shapes of the tensors, and that loop
consists of whole vectors. The facts that a schedule is chosen by; works on TE's operations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import te, tir
from tvm.tir.stmt_functor import substitute

from tvm_ios.relay.row_kernels.tensors import (
    at_indices,
    constant,
    flat_index,
    loads_of,
    mentions,
)
from tvm_ios.relay.schedules.segments import MOST_CUTS, conditions_of, cuts_of

__all__ = [
    "TILE",
    "Loops",
    "Read",
    "Tile",
    "extents_of",
    "flat_suffix",
    "reads_of",
    "transposed_suffix",
]

BFLOAT16 = "bfloat16"


@dataclass(frozen=True, slots=True)
class Read:
    """Access of an iteration to memory, as a function of the axes."""

    expression: tir.PrimExpr
    is_condition: bool
    """True for a condition under which something is read; False for the number of an element,
    counted from the first one of its tensor."""


def reads_of(operation: te.ComputeOp, kept: Sequence[te.Tensor] = ()) -> list[Read] | None:
    """Distinct reads of an operation, with those of all injective ones that it is fused with.

    ``kept`` are tensors in memory of their own. None where a shape is not known, or where numbers
    are of a type that TVM computes in another one, and cannot in the loops that follow from this.
    """
    if operation.output(0).dtype == BFLOAT16:
        return None
    found: list[Read] = []
    seen: set[tuple[te.Operation, str]] = set()
    waiting = [body.source[0] if isinstance(body, tir.Reduce) else body for body in operation.body]
    while waiting:
        body = waiting.pop()
        found += [Read(each, is_condition=True) for each in conditions_of(body)]
        for load in loads_of(body):
            made, indices = load.producer.op, list(load.indices)
            if (made, str(indices)) in seen:
                continue
            seen.add((made, str(indices)))
            if load.dtype == BFLOAT16:
                return None
            inlined = isinstance(made, te.ComputeOp) and not made.reduce_axis
            if inlined and load.producer not in kept:
                inner = made.body[load.producer.value_index]
                waiting.append(substitute(inner, at_indices(made, indices)))
                continue
            shape = extents_of(load.producer.shape)
            if shape is None:
                return None
            found.append(Read(flat_index(shape, indices), is_condition=False))
    return found


def flat_suffix(
    axes: Sequence[tir.IterVar], reads: Sequence[Read], *, segments: bool = False
) -> int:
    """Largest number of last axes in whose joint loop reads go on by one element, or by none.

    ``segments`` allows conditions that change at known places of that loop.
    """
    for first in range(len(axes)):
        loops = Loops.over(axes, [slice(first, None)])
        if loops is not None and all(
            loops.steps(read) in ((0,), (1,)) or (segments and loops.cuts(read)) for read in reads
        ):
            return len(axes) - first
    return 0


@dataclass(frozen=True, slots=True)
class Tile:
    """Two loops at the end of a computation that reads rows and writes columns, or the reverse."""

    rows: int
    """Number of axes before the last ones that are the outer loop; next elements are read in it."""
    lanes: int
    """Number of last axes that are the inner loop; next elements are written in it."""
    split: int
    """Iterations of its one axis that the outer loop is only; 0 where it has all of its axes."""


TILE = 8
"""Rows and columns of a tile that is transposed in registers; 16 take TVM long to lower, and are no
faster."""
LONGEST_PART = 64
"""Iterations of the longest part of a loop that is looked at: channels of one block."""


def transposed_suffix(axes: Sequence[tir.IterVar], reads: Sequence[Read]) -> Tile | None:
    """The last axes that are tiles of rows and columns, as many as there are; None without any."""
    extents = extents_of([axis.dom.extent for axis in axes])
    if extents is None:
        return None
    for second in range(1, len(axes)):
        if math.prod(extents[second:]) < TILE:
            break
        for first in range(second):
            rows = math.prod(extents[first:second])
            parts = _parts(rows) if second - first == 1 else []
            for split in [0, *parts] if rows >= TILE else []:
                if _is_transposed(axes, reads, first, second, split):
                    return Tile(second - first, len(axes) - second, split)
    return None


def _parts(extent: int) -> list[int]:
    """Iterations of equal parts of a loop that are at least a tile each, the longest part first."""
    longest = min(extent // 2, LONGEST_PART)
    return [part for part in range(longest, TILE - 1, -1) if extent % part == 0]


def _is_transposed(
    axes: Sequence[tir.IterVar], reads: Sequence[Read], first: int, second: int, split: int
) -> bool:
    loops = Loops.over(axes, [slice(first, second), slice(second, None)], split=split)
    # A tile reads before it asks, and what a condition guards may lie outside of its tensor.
    if loops is None or any(read.is_condition and not loops.always(read) for read in reads):
        return False
    steps = [loops.steps(read) for read in reads]
    return all(each is not None and (each[0] == 1 or each[1] in (0, 1)) for each in steps) and any(
        each is not None and each[1] not in (0, 1) for each in steps
    )


def extents_of(shape: Sequence[tir.PrimExpr]) -> list[int] | None:
    """Extents of a shape; None where one is not known."""
    found = [int(extent) for extent in shape if isinstance(extent, tir.IntImm)]
    return found if len(found) == len(shape) else None


@dataclass(frozen=True, slots=True)
class Loops:
    """Groups of neighbouring axes, each as one loop."""

    variables: tuple[tir.Var, ...]
    moved: Mapping[tir.Var, tir.PrimExpr]
    """Axes as functions of the loops."""
    analyzer: tvm.arith.Analyzer

    @classmethod
    def over(
        cls, axes: Sequence[tir.IterVar], groups: Sequence[slice], *, split: int = 0
    ) -> Loops | None:
        """Loops over groups of axes; the first only over ``split`` iterations of its one axis."""
        extents = [constant(axis.dom.extent) for axis in axes]
        analyzer = tvm.arith.Analyzer()
        for axis, extent in zip(axes, extents, strict=True):
            if extent is None:
                return None
            analyzer.bind(axis.var, tvm.ir.Range(0, extent))
        variables, moved = [], {}
        for number, group in enumerate(groups):
            own = [extent or 0 for extent in extents[group]]
            loop = tir.Var(f"loop{number}", axes[group][0].var.dtype)
            variables.append(loop)
            if split and number == 0:
                analyzer.bind(loop, tvm.ir.Range(0, split))
                part = tir.Var("part", loop.dtype)
                analyzer.bind(part, tvm.ir.Range(0, own[0] // split))
                moved[axes[group][0].var] = part * split + loop
                continue
            analyzer.bind(loop, tvm.ir.Range(0, math.prod(own)))
            for position, axis in enumerate(axes[group]):
                moved[axis.var] = (loop // math.prod(own[position + 1 :])) % own[position]
        return cls(tuple(variables), moved, analyzer)

    def steps(self, read: Read) -> tuple[int, ...] | None:
        """Elements that a read goes on by in each loop; None where that is not constant."""
        plain = self._plain(read)
        if not any(mentions(plain, loop) for loop in self.variables):
            return (0,) * len(self.variables)
        if read.is_condition:
            return None
        line = list(tvm.arith.detect_linear_equation(plain, list(self.variables)))
        steps = [step for step in map(constant, line[:-1]) if step is not None]
        return tuple(steps) if len(steps) == len(self.variables) else None

    def cuts(self, read: Read) -> bool:
        """True for a condition that changes at known places of the one loop."""
        cuts = cuts_of(self._plain(read), self.variables[0]) if read.is_condition else None
        return cuts is not None and len(cuts) <= MOST_CUTS

    def always(self, condition: Read) -> bool:
        """True if a condition holds everywhere."""
        return constant(self._plain(condition)) == 1

    def _plain(self, read: Read) -> tir.PrimExpr:
        # Sums of divisions and remainders become one variable in the second round, or the third.
        return self.analyzer.simplify(substitute(read.expression, self.moved), 3)
