"""Random Relay graphs of three shapes: any, deep and wide; the same ones from the same chooser."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st
from tvm import relay

from tests.relay_graphs.builder import MOST_ELEMENTS, DrawnGraph, GraphBuilder, RefusedError, Value
from tests.relay_graphs.operators import OPERATORS, Operator

__all__ = ["any_graph", "averaged_graph", "deep_graph", "drawn", "wide_graph"]

SHAPES = ((1, 8, 6, 6), (2, 4, 5, 5), (2, 6, 4), (3, 10))
"""Few, so that fused functions come back and their kernels are known."""
NEAR = 6
"""An operator reads one of so many last values."""


def any_graph(chooser: random.Random, operators: Sequence[Operator] = OPERATORS) -> DrawnGraph:
    """Some operators on one or two inputs, and some of what they gave as outputs."""
    builder = GraphBuilder(chooser)
    return builder.finish(_ends(builder, operators))


def averaged_graph(chooser: random.Random) -> DrawnGraph:
    """Any graph whose results of float32 are products: all values in front may be bfloat16."""
    builder = GraphBuilder(chooser)
    return builder.finish([_averaged(builder, end) for end in _ends(builder, OPERATORS)])


def _averaged(builder: GraphBuilder, value: Value) -> Value:
    if value.dtype != "float32" or not value.array.size:
        return value
    row = builder.apply(
        relay.reshape(value.expr, (1, -1)), lambda x: x.reshape(1, -1), value, exact=True
    )
    weight = builder.constant((4, value.array.size), scale=1 / value.array.size)
    return builder.apply(relay.nn.dense(row.expr, weight.expr), lambda x, w: x @ w.T, row, weight)


def _ends(builder: GraphBuilder, operators: Sequence[Operator]) -> list[Value]:
    """Outputs of a graph of some operators on one or two inputs."""
    chooser = builder.chooser
    for _ in range(chooser.choice((1, 1, 2))):
        dtype = chooser.choice(("float32",) * 6 + ("float16", "int8", "bool"))
        builder.input(chooser.choice(SHAPES), dtype)
    for _ in range(chooser.randrange(2, 13)):
        source = chooser.choice(builder.values[-NEAR:])
        builder.values += step(builder, source, operators)
    made = builder.values[len(builder.inputs) :] or builder.values
    last = made[-1]
    more = [chooser.choice(builder.values) for _ in range(chooser.choice((0, 0, 1, 2)))]
    return [last, *more]


def deep_graph(chooser: random.Random, depth: int = 500) -> DrawnGraph:
    """A few operators again and again, each reading what the last one gave."""
    builder = GraphBuilder(chooser)
    value = builder.input(chooser.choice(SHAPES))
    plans = [chooser.randrange(10**6) for _ in range(chooser.randrange(1, 5))]
    for number in range(depth):
        value = _planned(builder, value, plans[number % len(plans)])
    return builder.finish([value])


def wide_graph(chooser: random.Random, width: int = 60) -> DrawnGraph:
    """Branches of one or two operators on one input, joined by sums or returned one by one."""
    builder = GraphBuilder(chooser)
    data = builder.input(chooser.choice(SHAPES))
    plans = [chooser.randrange(10**6) for _ in range(chooser.randrange(1, 8))]
    length = chooser.choice((1, 2))
    ends = []
    for number in range(width):
        value = data
        for place in range(length):
            value = _planned(builder, value, plans[(number + place) % len(plans)])
        ends.append(value)
    most_elements = MOST_ELEMENTS // width
    if chooser.random() < 0.3 or data.array.size > most_elements:
        return builder.finish(ends)
    joined = builder.apply(
        relay.concatenate([end.expr for end in ends], 0),
        lambda *arrays: np.concatenate(arrays, 0),
        *ends,
        exact=True,
    )
    return builder.finish([joined, ends[0]])


def _planned(builder: GraphBuilder, source: Value, plan: int) -> Value:
    """What the operator of this plan makes, of the same shape and type; else ``tanh``.

    A plan decides the same each time, so that kernels come back.
    """
    chooser, builder.chooser = builder.chooser, random.Random(plan)
    try:
        for value in step(builder, source, OPERATORS):
            if (value.shape, value.dtype) == (source.shape, source.dtype):
                return value
    finally:
        builder.chooser = chooser
    return builder.apply(relay.tanh(source.expr), np.tanh, source)


def step(builder: GraphBuilder, source: Value, operators: Sequence[Operator]) -> list[Value]:
    """What one of the operators that fit makes of a value; nothing after many tries."""
    for _ in range(8):
        try:
            made = builder.chooser.choice(operators)(builder, source)
        except RefusedError:
            continue
        return made if isinstance(made, list) else [made]
    return []


def drawn(make: Callable[[random.Random], DrawnGraph]) -> st.SearchStrategy[DrawnGraph]:
    """Graphs whose choices Hypothesis makes, and makes simpler when a test fails."""
    return st.randoms(use_true_random=False).map(make)
