"""Chains of reshapes and transposes written with as few of them as there can be.

Importers write heads of attention, patches and rows of linear layers as views of views. Such a
chain is at most a reshape, a transpose and a reshape; often the transpose goes away, and what is
left needs no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    is_call_of,
    readers_of,
    rebuild,
    spanned,
    with_body,
)
from tvm_ios.relay.functions.shapes import RESHAPES, static_shape
from tvm_ios.relay.transforms.spellings.element_order import ElementOrder, Moves, Slice

__all__ = ["with_short_moves"]

MOVES = (*RESHAPES, "broadcast_to", "nn.batch_flatten", "transpose")
"""Operators that move elements, or leave them where they are, unless ``broadcast_to`` copies."""
MOST_COST = 4
"""Cost of the longest chain that there has to be."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """Moves of an expression, one after another."""

    begin: relay.Expr
    order: ElementOrder
    cost: int
    """Number of moves, in which a transpose counts as two."""


def with_short_moves(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module in which no chain of moves is longer than it has to be.

    A transpose whose result has several readers stays one, so that none is done twice, unless all
    of them take slices: these are then taken of what is transposed. The module itself is returned
    where nothing changes.
    """
    return _Shorter(module).module()


class _Shorter:
    """Walk over a module that joins reshapes and transposes of one tensor."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._module = module
        self._readers = readers_of(graph_order(module["main"].body))
        self._chains: dict[relay.Expr, _Chain] = {}
        self._known: dict[relay.Expr, relay.Expr] = {}
        self._changed = False

    def module(self) -> tvm.IRModule:
        body = rebuild(self._module["main"].body, self._known, self._made)
        return with_body(self._module, body) if self._changed else self._module

    def _made(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        chain = self._sliced(call) or self._chain(call)
        if chain is None:
            return copy_call(call, arguments)
        moves = chain.order.moves()
        self._chains[call] = replace(chain, cost=min(chain.cost, moves.cost))
        if moves.cost >= chain.cost:
            return copy_call(call, arguments)
        self._changed = True
        return _moved(self._known[chain.begin], moves, call)

    def _chain(self, call: relay.Call) -> _Chain | None:
        """Chain that ends with a call; None for calls that are no moves."""
        if not is_call_of(call, *MOVES):
            return None
        data = call.args[0]
        shape, made = static_shape(data), static_shape(call)
        if shape is None or made is None or not prod(shape) == prod(made) > 0:
            return None
        before = self._chains.get(data)
        if before is None or (len(self._readers[data]) > 1 and not before.order.is_reshape):
            before = _Chain(data, ElementOrder.of(shape), 0)
        order = _followed(before.order, call, made)
        if order is None:
            before = _Chain(data, ElementOrder.of(shape), 0)
            order = _followed(before.order, call, made)
        if order is None:
            return None
        return _Chain(before.begin, order, before.cost + 1 + is_call_of(call, "transpose"))

    def _sliced(self, call: relay.Call) -> _Chain | None:
        """Chain behind a slice of the tensor that a chain in front of a slice begins with."""
        before = self._chains.get(call.args[0]) if is_call_of(call, "strided_slice") else None
        if before is None or before.order.is_reshape:
            return None
        if not all(is_call_of(each, "strided_slice") for each in self._readers[call.args[0]]):
            return None
        cut = _only_cut(call)
        found = None if cut is None else before.order.sliced(cut.axis, cut.begin, cut.end)
        if found is None:
            return None
        part, order = found
        data = self._known[before.begin]
        made = relay.strided_slice(data, [part.begin], [part.end], axes=[part.axis])
        begin = spanned(made, call)
        self._known[begin] = begin
        return _Chain(begin, order, MOST_COST + 1)


def _only_cut(call: relay.Call) -> Slice | None:
    """The one axis that a slice cuts, and what is left of it; None for other slices."""
    shape, made = static_shape(call.args[0]), static_shape(call)
    if len(call.args) > 1 or shape is None or made is None or 0 in made:
        return None
    cut = [axis for axis, extent in enumerate(shape) if made[axis] != extent]
    if len(cut) != 1 or any(int(stride) != 1 for stride in call.attrs.strides or ()):
        return None
    (axis,) = cut
    named = range(len(shape)) if call.attrs.axes is None else map(int, call.attrs.axes)
    begins = dict(zip((each % len(shape) for each in named), call.attrs.begin, strict=False))
    begin = int(begins[axis])
    begin = max(0, begin + shape[axis] if begin < 0 else begin)
    return Slice(axis, begin, begin + made[axis])


def _followed(order: ElementOrder, call: relay.Call, made: tuple[int, ...]) -> ElementOrder | None:
    """Order after one more move."""
    if not is_call_of(call, "transpose"):
        return order.reshaped(made)
    rank = len(made)
    axes = call.attrs.axes
    named = range(rank)[::-1] if axes is None else [int(axis) % rank for axis in axes]
    return order.transposed(named)


def _moved(value: relay.Expr, moves: Moves, call: relay.Call) -> relay.Expr:
    for make, told in (
        (relay.reshape, moves.before),
        (relay.transpose, moves.axes),
        (relay.reshape, moves.after),
    ):
        if told is not None:
            value = spanned(make(value, told), call)
    return value
