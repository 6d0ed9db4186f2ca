"""Windows that slide along rows of an image: convolutions and pools.

Tried before other loops. Here kernels are recognised; ``sliding_loops`` beside it has the loops for
images in NHWC or in blocks of channels (depthwise and first convolutions, pools), and
``sliding_rows`` those for images in NCHW.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight import normalize_prim_func
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import Expr as Value

from tvm_ios.core.window_tiles import Axis
from tvm_ios.relax.schedules.tiles import loads_of, substituted, uses, with_loops
from tvm_ios.relax.schedules.windows.sliding_loops import emit
from tvm_ios.relax.schedules.windows.sliding_rows import emit_rows
from tvm_ios.relax.schedules.windows.window_sums import Slide, Sliding

__all__ = ["OtherKernelError", "require", "sliding", "written_after"]

MOST_TAPS, MOST_INPUTS, MOST_STRIDE = 11, 4, 2
"""Columns of a kernel, and channels that are summed up, of which each is code of its own; and the
distance of elements that are shuffled from whole vectors of a row."""


def sliding(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc | None:
    """Kernel of a sliding window with its loops, for vectors of so many elements.

    None for kernels that compute something else.
    """
    try:
        found = _found(s_tir.Schedule(function))
        body = emit_rows(found, lanes) if found.along_rows else emit(found, lanes)
    except (OtherKernelError, s_tir.ScheduleError):
        return None
    if body is None:
        return None
    return with_loops(function, body)


class OtherKernelError(Exception):
    """A kernel is not what loops are for."""


def require(condition: object) -> None:
    """Raise OtherKernelError unless something holds."""
    if not condition:
        raise OtherKernelError


@dataclass(frozen=True, slots=True)
class _Padded:
    """Array with a constant around another one."""

    buffer: Any
    variables: Sequence[tirx.Var]
    value: Value
    """Element of it that is one of the other array."""
    around: float
    before: Sequence[int]
    """Elements before the other array along each axis."""
    extents: Sequence[int]
    """Extents of the other array."""


def _found(schedule: s_tir.Schedule) -> Sliding:
    """The window of a kernel that has one, and nothing else but what follows it."""
    blocks = normalize_prim_func(schedule) or []
    sums = [at for at, each in enumerate(blocks) if not each.is_injective()]
    require(len(sums) == 1)
    require(len(schedule.get_output_blocks(schedule.get_sblock("root"))) == 1)
    kinds = [each.kind for each in blocks[sums[0]].iters]
    require(kinds.count("S") > 1 and "R" in kinds)
    before, after = (
        [each.block_rv for each in part] for part in (blocks[: sums[0]], blocks[sums[0] + 1 :])
    )
    pads = [each for each in before if _changes_shape(schedule.get(each))]
    require(len(pads) <= 1)
    for each in (*(one for one in before if one not in pads), *after[:-1]):
        schedule.compute_inline(each)
    total = schedule.get(blocks[sums[0]].block_rv)
    padded = _padded(schedule.get(pads[0])) if pads else None
    return _sliding(total, kinds, padded, schedule.get(after[-1]) if after else None)


def _changes_shape(block: s_tir.SBlock) -> bool:
    shapes = {_shape(each.source) for each in (*block.reads, *block.writes)}
    return len(shapes) > 1


def _padded(block: s_tir.SBlock) -> _Padded:
    store = block.body
    require(isinstance(store, tirx.BufferStore) and isinstance(store.value, tvm.ir.Call))
    require("if_then_else" in str(store.value.op))
    condition, value, around = store.value.args
    loads = loads_of(value)
    require(isinstance(around, tirx.FloatImm) and len(loads) == 1)
    source, whole = _shape(loads[0].source), _shape(store.buffer)
    require(len(source) == len(whole))
    least, behind = _bounds(condition)
    before, variables = [], []
    for index, place, extent, all_of_it in zip(
        loads[0].indices, store.indices, source, whole, strict=True
    ):
        offset = Analyzer().simplify(place - index)
        require(isinstance(offset, tirx.IntImm))
        before.append(int(offset))
        require(least.pop(place, 0) == before[-1])
        require(behind.pop(place, all_of_it) == before[-1] + extent)
        if not isinstance(place, tirx.IntImm):
            variables.append(place)
    require(not least and not behind)
    return _Padded(store.buffer, variables, value, float(around.value), before, source)


def _bounds(condition: Value) -> tuple[dict[Value, int], dict[Value, int]]:
    """Least numbers of variables that a condition asks for, and those behind the last ones."""
    least: dict[Value, int] = {}
    behind: dict[Value, int] = {}
    terms = [condition]
    while terms:
        term = terms.pop()
        if isinstance(term, tirx.And):
            terms += [term.a, term.b]
        elif isinstance(term, tirx.LE) and isinstance(term.a, tirx.IntImm):
            least[term.b] = int(term.a)
        elif isinstance(term, tirx.GE) and isinstance(term.b, tirx.IntImm):
            least[term.a] = int(term.b)
        else:
            require(isinstance(term, tirx.LT) and isinstance(term.b, tirx.IntImm))
            behind[term.a] = int(term.b)
    return least, behind


def _sliding(
    total: s_tir.SBlock, kinds: Sequence[str], padded: _Padded | None, last: s_tir.SBlock | None
) -> Sliding:
    store = total.body
    require(isinstance(store, tirx.BufferStore) and isinstance(store.value, tirx.Add | tirx.Max))
    summed, added = store.value.a, store.value.b
    require(isinstance(summed, tvm.ir.TensorLoad) and str(summed.ty) == "float32")
    extents = {each.var: int(each.dom.extent) for each in total.iter_vars}
    variables = [each for each in extents if extents[each] != 1]
    require(len(variables) == len(kinds))
    pairs = list(zip(variables, kinds, strict=True))
    results, taps = ([each for each, kind in pairs if kind == which] for which in "SR")
    along_rows = not _is_read_along(added, results[-1])
    column = results[-1] if along_rows else results[-2]
    data = _data(added, padded, column)
    slides = _slides(data, padded, results, taps, extents)
    require(column in slides and slides[column].axis.kernel <= MOST_TAPS)
    sliding_rows = [
        each
        for each in results[: results.index(column)]
        if each in slides and (slides[each].tap is not None or slides[each].axis.has_border)
    ]
    require(len(sliding_rows) <= 1)
    used = [slides[each].tap for each in (*sliding_rows, column) if slides[each].tap is not None]
    inputs = [each for each in taps if each not in used]
    # Each element is summed in TVM's order.
    require(taps == ([*inputs, *used] if along_rows else [*used, *inputs]))
    require(len(inputs) <= 1)
    inner = data if padded is None else _within(data, padded)
    if along_rows:
        require(all(str(each.ty) == "float32" for each in loads_of(inner)))
        others = [each for each in results if each not in slides]
        require(len(others) <= 1 and _is_last(data, column))
        require(slides[column].axis.stride <= MOST_STRIDE)
    else:
        require(used and all(extents[each] <= MOST_INPUTS for each in inputs))
        require(_lies_along(added, results[-1]))
    first = float(total.init.value.value)
    require(padded is None or _may_be_left_out(store.value, padded, first))
    element = tirx.Var("element", "float32")
    write, named = written_after(store, results, last)
    return Sliding(
        along_rows=along_rows,
        results=tuple(results),
        extents=tuple(extents[each] for each in results),
        row=sliding_rows[0] if sliding_rows else None,
        slides=slides,
        inputs={each: extents[each] for each in inputs},
        combine=type(store.value),
        first=first,
        added=_with(added, data, element),
        element=element,
        data=inner,
        around=first if padded is None else padded.around,
        total=store.buffer,
        write=write,
        named=named,
    )


def _is_read_along(added: Value, variable: tirx.Var) -> bool:
    """True if a variable itself is a place in an array."""
    return any(index.same_as(variable) for each in loads_of(added) for index in each.indices)


def _is_last(data: Any, column: tirx.Var) -> bool:
    """True if columns lie side by side in memory."""
    shape = _shape(data.source)
    last = max(at for at, extent in enumerate(shape) if extent != 1)
    return uses(data.indices[last], column)


def _data(added: Value, padded: _Padded | None, column: tirx.Var) -> Any:
    """Load of what a window slides along, which uses the column of the result."""
    found = [each for each in loads_of(added) if any(uses(one, column) for one in each.indices)]
    require(len(found) == 1)
    require(padded is None or found[0].source.same_as(padded.buffer))
    return found[0]


def _slides(
    data: Any,
    padded: _Padded | None,
    results: Sequence[tirx.Var],
    taps: Sequence[tirx.Var],
    extents: Mapping[tirx.Var, int],
) -> dict[tirx.Var, Slide]:
    """Axes along which data are read, by the variable of the result."""
    shape = padded.extents if padded else _shape(data.source)
    found: dict[tirx.Var, Slide] = {}
    for number, index in enumerate(data.indices):
        before = padded.before[number] if padded else 0
        mine = [each for each in results if uses(index, each)]
        own = [each for each in taps if uses(index, each)]
        if not mine:
            require(before == 0)
            continue
        factors = detect_linear_equation(index, [*mine, *own])
        require(all(isinstance(each, tirx.IntImm) for each in factors))
        require(len(mine) == 1 and len(own) <= 1 and len(factors) == 1 + len(mine) + len(own))
        stride, *steps = map(int, factors)
        axis = Axis(
            extent=shape[number],
            result=extents[mine[0]],
            kernel=extents[own[0]] if own else 1,
            stride=stride,
            before=before - steps[-1],
            dilation=steps[0] if own else 1,
        )
        require(axis.stride > 0 and axis.dilation > 0 and mine[0] not in found)
        found[mine[0]] = Slide(axis=axis, tap=own[0] if own else None)
    return found


def _lies_along(added: Value, lane: tirx.Var) -> bool:
    """True if vectors are read along an axis, and nothing is gathered."""
    along = 0
    for each in loads_of(added):
        shape = _shape(each.source)
        last = max((at for at, extent in enumerate(shape) if extent != 1), default=0)
        for at, index in enumerate(each.indices):
            if at == last and index.same_as(lane):
                along += 1
            elif uses(index, lane):
                return False
    return along > 0


def _may_be_left_out(combined: Value, padded: _Padded, first: float) -> bool:
    """True if results are the same without what is around the data."""
    if isinstance(combined, tirx.Max):
        return isinstance(combined.b, tvm.ir.TensorLoad) and padded.around <= first
    product = combined.b
    factors = [product.a, product.b] if isinstance(product, tirx.Mul) else [product]
    return padded.around == first == 0 and any(
        isinstance(each, tvm.ir.TensorLoad) and each.source.same_as(padded.buffer)
        for each in factors
    )


def _with(value: Value, data: Any, element: tirx.Var) -> Value:
    """Expression with a variable in the place of a load."""

    def read(load: Any) -> Value:
        return element if load.same_as(data) else load

    return tvm_ffi.structural_map(value, (tvm.ir.TensorLoad, read), order="post")


def _within(data: Any, padded: _Padded) -> Value:
    """Element of the array within a padded one that a load of the latter reads."""
    places = [each for each in data.indices if not isinstance(each, tirx.IntImm)]
    return substituted(padded.value, list(zip(padded.variables, places, strict=True)))


def written_after(
    store: tirx.BufferStore, results: Sequence[tirx.Var], last: s_tir.SBlock | None
) -> tuple[tirx.BufferStore, tuple[tirx.Var, ...]]:
    """Statement that writes an element from its sum, and its names of the sum's variables."""
    if last is None:
        written = tirx.BufferStore(store.buffer, store.value.a, store.indices)
        return written, tuple(results)
    require(isinstance(last.body, tirx.BufferStore))
    loads = [each for each in loads_of(last.body.value) if each.source.same_as(store.buffer)]
    require(loads)
    named: dict[tirx.Var, tirx.Var] = {}
    for load in loads:
        for mine, other in zip(store.indices, load.indices, strict=True):
            if isinstance(mine, tirx.IntImm):
                require(isinstance(other, tirx.IntImm))
            else:
                require(isinstance(other, tirx.Var))
                require(named.setdefault(mine, other).same_as(other))
    variables = [each.var for each in last.iter_vars if int(each.dom.extent) != 1]
    require(len(variables) == len(set(named.values())) == len(results))
    return last.body, tuple(named[each] for each in results)


def _shape(source: Any) -> tuple[int, ...]:
    shape = source.shape if hasattr(source, "shape") else source.ty.shape
    return tuple(map(int, shape))
