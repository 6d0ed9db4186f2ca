"""GELU by tanh, read from the calls of a function, and what only looks like it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sqrt

import pytest

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType
from tvm_ios.runtime.libraries.onednn.matching.tanh_gelu import read_tanh_gelu

TENSOR = TensorType((4, 64), "float32")
X = 0


@dataclass
class Writer:
    """Calls of a function of x, one after the other."""

    calls: list[PrimitiveCall] = field(default_factory=list)

    def __call__(self, operator, *operands):
        """The value of a call; numbers are constants."""
        values = [self.number(each) if isinstance(each, float) else each for each in operands]
        return self.add(PrimitiveCall(operator=operator, operands=tuple(values), result=TENSOR))

    def number(self, value):
        scalar = TensorType((), "float32")
        made = {"operator": "constant", "operands": (), "attributes": (("value", value),)}
        return self.add(PrimitiveCall(result=scalar, **made))

    def add(self, call):
        self.calls.append(call)
        return len(self.calls)  # x is 0

    def found(self):
        return read_tanh_gelu(FusedFunction(parameters=(TENSOR,), calls=tuple(self.calls)), X)


FACTOR = sqrt(2 / pi)


def bent(w, cubic=0.044715, factor=FACTOR):
    inside = w("add", X, w("multiply", cubic, w("power", X, 3.0)))
    return w("tanh", w("multiply", factor, inside))


def gpt2(w):
    return w("multiply", w("multiply", 0.5, X), w("add", 1.0, bent(w)))


def by_products(w):
    square = w("multiply", X, X)
    inside = w("multiply", X, w("add", w("multiply", 0.044715, square), 1.0))
    gate = w("tanh", w("divide", inside, sqrt(pi / 2)))
    return w("multiply", w("add", w("multiply", gate, 0.5), 0.5), X)


def spread(w):
    """x/2 + x/2 tanh(...)"""
    half = w("divide", X, 2.0)
    return w("add", half, w("multiply", half, bent(w)))


def doubled(w):
    return w("multiply", X, w("subtract", bent(w), -1.0))


@pytest.mark.parametrize(
    ("spelling", "scale"), [(gpt2, 1.0), (by_products, 1.0), (spread, 1.0), (doubled, 2.0)]
)
def test_every_spelling_is_read(spelling, scale):
    w = Writer()
    end = spelling(w)
    assert w.found() == (pytest.approx(scale), end)
    w("nn.relu", end)  # what comes after it is for others
    assert w.found() == (pytest.approx(scale), end)


@pytest.mark.parametrize(
    "other",
    [
        lambda w: w("multiply", X, w("add", bent(w, cubic=0.0447), 1.0)),
        lambda w: w("multiply", X, w("add", bent(w, factor=0.8), 1.0)),
        lambda w: w("multiply", X, w("add", bent(w), 0.5)),
        lambda w: w("multiply", X, bent(w)),
        lambda w: w("multiply", w("add", X, 1.0), w("add", bent(w), 1.0)),
        lambda w: w("multiply", w("multiply", X, X), w("add", bent(w), 1.0)),
        lambda w: w("add", bent(w), bent(w)),
        lambda w: w("multiply", X, w("add", w("tanh", bent(w)), 1.0)),
        lambda w: w("power", X, 4.0),
        lambda w: w("divide", X, 0.0),
        lambda w: w("divide", 1.0, X),
    ],
)
def test_what_only_looks_like_it_is_not(other):
    w = Writer()
    other(w)
    assert w.found() is None


def test_what_others_read_too_is_not():
    w = Writer()
    gate = bent(w)
    end = w("multiply", X, w("add", gate, 1.0))
    w("add", end, gate)
    assert w.found() is None
