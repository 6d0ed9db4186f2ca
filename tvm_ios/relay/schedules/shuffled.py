"""Loops that read in a pattern, in vectors shuffled from vectors of what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import tir
from tvm.tir.stmt_functor import ir_transform, post_order_visit, substitute

from tvm_ios.kernels.loops import allocated, sequence
from tvm_ios.relay.row_kernels.tensors import mentions
from tvm_ios.relay.schedules.patterns import LANES, offsets_of, windows_of
from tvm_ios.relay.schedules.segments import conditions_of

__all__ = ["in_pattern"]


def in_pattern(loop: tir.For, period: int) -> tir.Stmt | None:
    """Loop in vectors, period by period; None where what it reads has no such pattern."""
    variable, extent = loop.loop_var, int(loop.extent)
    if any(mentions(condition, variable) for condition in conditions_of(loop.body)):
        return None
    whole, rest = divmod(extent, period)
    part = tir.Var("part", variable.dtype)
    parts = [_Stretch.of(loop, part * period, range(period), tvm.ir.Range(0, whole), part)]
    if rest:
        # The last vector computes again what fills it.
        places = range(min(0, rest - LANES), rest)
        parts.append(_Stretch.of(loop, tir.const(whole * period, variable.dtype), places))
    if None in parts:
        return None
    first, *others = [each.in_vectors() for each in parts if each is not None]
    return sequence([tir.For(part, 0, whole, loop.kind, first), *others])


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Iterations of a loop that are written out, and what each load reads in them."""

    loop: tir.For
    begin: tir.PrimExpr
    places: range
    """Iterations, counted from the begin."""
    loads: tuple[tuple[tir.BufferLoad, tuple[int, ...]], ...]
    """Loads that differ between iterations, and their offsets from that of the begin."""

    @classmethod
    def of(
        cls,
        loop: tir.For,
        begin: tir.PrimExpr,
        places: range,
        parts: tvm.ir.Range | None = None,
        part: tir.Var | None = None,
    ) -> _Stretch | None:
        analyzer = tvm.arith.Analyzer()
        if parts is not None:
            analyzer.bind(part, parts)
        loads = []
        for load in _loads_of(loop):
            found = offsets_of(load.indices[0], loop.loop_var, begin, places, analyzer)
            if found is None:
                return None
            loads.append((load, tuple(found)))
        return cls(loop, begin, places, tuple(loads))

    def in_vectors(self) -> tir.Stmt:
        starts = [*range(self.places.start, self.places.stop - LANES, LANES)]
        return sequence([self._vector(start) for start in [*starts, self.places.stop - LANES]])

    def _vector(self, start: int) -> tir.Stmt:
        lane = tir.Var("lane", self.loop.loop_var.dtype)
        held, steps, replaced = [], [], []
        for load, offsets in self.loads:
            first = start - self.places.start
            wanted = offsets[first : first + LANES]
            index = substitute(load.indices[0], {self.loop.loop_var: self.begin})
            step = wanted[1] - wanted[0]
            if step in (0, 1) and all(
                offset == wanted[0] + step * place for place, offset in enumerate(wanted)
            ):
                at = index + wanted[0] + lane * step
                replaced.append((load, tir.BufferLoad(load.buffer, [at])))
                continue
            column = tir.decl_buffer((LANES,), load.dtype, "shuffled", scope="global")
            held.append(column)
            everywhere = tir.Ramp(tir.IntImm("int32", 0), 1, LANES)
            steps.append(
                tir.BufferStore(column, _gathered(load, index, wanted, offsets), [everywhere])
            )
            replaced.append((load, tir.BufferLoad(column, [lane])))
        body = _replaced(self.loop.body, replaced)
        body = substitute(body, {self.loop.loop_var: self.begin + start + lane})
        steps.append(tir.For(lane, 0, LANES, tir.ForKind.VECTORIZED, body))
        return allocated(held, sequence(steps))


def _gathered(
    load: tir.BufferLoad, index: tir.PrimExpr, wanted: Sequence[int], known: Sequence[int]
) -> tir.PrimExpr:
    """Vector of wanted elements, shuffled from vectors that hold them."""
    windows = windows_of(wanted, known)
    width = min(LANES, max(known) + 1 - min(known))
    vectors = [tir.BufferLoad(load.buffer, [tir.Ramp(index + at, 1, width)]) for at in windows]
    of = [max(number for number, at in enumerate(windows) if at <= offset) for offset in wanted]
    places = [offset - windows[number] for offset, number in zip(wanted, of, strict=True)]
    lanes = range(LANES)
    # TVM wants no more elements than there are.
    first = vectors[:1] * -(-LANES // width)
    made = _shuffle(first, [places[lane] if of[lane] == 0 else 0 for lane in lanes])
    for number, vector in list(enumerate(vectors))[1:]:
        chosen = [LANES + places[lane] if of[lane] == number else lane for lane in lanes]
        made = _shuffle([made, vector], chosen)
    return made


def _shuffle(vectors: list[tir.PrimExpr], places: list[int]) -> tir.PrimExpr:
    return tir.Shuffle(vectors, [tir.IntImm("int32", place) for place in places])


def _loads_of(loop: tir.For) -> list[tir.BufferLoad]:
    found: list[tir.BufferLoad] = []

    def note(node: object) -> None:
        if isinstance(node, tir.BufferLoad) and mentions(node.indices[0], loop.loop_var):
            found.append(node)

    post_order_visit(loop.body, note)
    return found


def _replaced(body: tir.Stmt, pairs: Sequence[tuple[tir.BufferLoad, tir.BufferLoad]]) -> tir.Stmt:
    def other(node: tir.BufferLoad) -> tir.PrimExpr | None:
        return next((new for old, new in pairs if node.same_as(old)), None)

    return ir_transform(body, other, None, ["tir.BufferLoad"])
