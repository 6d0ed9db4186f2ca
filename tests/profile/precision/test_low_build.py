"""Errors of outputs, and parts of a model that go back to float32 until they are small enough."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.precision.low_precision import BFLOAT16, Precision
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.profile.precision import low_build
from tvm_ios.profile.precision.low_build import relative_errors

COUNT = 16


CHAIN = tuple(op(f"o{n}", *range(max(0, n - 1), n), flops=100) for n in range(COUNT))
BUILT = SimpleNamespace(graph=OperatorGraph("net", CHAIN))
"""Nothing but a graph of equal operators."""


class Model:
    """Errors of a model whose operators each add some of their own."""

    def __init__(self, errors: list[float]) -> None:
        self.errors = errors
        self.tried: list[frozenset[int]] = []

    def build(self, back):
        """Build without some operators, and what came of it."""
        self.tried.append(frozenset(back))
        left = [error for index, error in enumerate(self.errors) if index not in back]
        if not left:
            return None
        return "build", PrecisionOutcome(dtype=BFLOAT16, errors=(math.hypot(*left),))


def near_enough(model, bound):
    return low_build._near_enough(BUILT, model.build, Precision(max_relative_error=bound))


def test_operators_that_hurt_most_go_back():
    model = Model([0.001] * 6 + [0.1, 0.1] + [0.001] * 8)
    built, outcome = near_enough(model, 0.01)
    assert built == "build"
    assert outcome.back == 2
    assert model.tried[-1] == {6, 7}
    assert outcome.worst <= 0.01


def test_more_go_back_where_the_sum_of_squares_was_too_hopeful():
    model = Model([0.01] * COUNT)
    model.build, honest = lambda back: _worse(honest(back), len(back)), model.build
    _, outcome = near_enough(model, 0.03)
    assert outcome.worst <= 0.03
    assert 0 < outcome.back < COUNT


def _worse(found, back):
    if found is None or back >= COUNT - 2:  # parts alone are as told
        return found
    built, outcome = found
    return built, PrecisionOutcome(dtype=BFLOAT16, errors=(1.3 * outcome.worst,))


def test_nothing_is_left_where_each_part_is_too_far_off():
    assert near_enough(Model([0.1] * COUNT), 0.01) is None


@pytest.mark.parametrize(
    ("exact", "found", "error"),
    [
        ([1.0, -4.0], [1.5, -4.0], 0.125),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 1.0], math.inf),
        ([1.0, math.inf], [1.0, math.inf], 0.0),
        ([1.0, math.inf], [1.0, 3e38], math.inf),
        ([1.0, 2.0], [1.0, math.inf], math.inf),
        ([1.0, math.nan], [1.25, math.nan], 0.25),
        ([math.nan], [math.nan], 0.0),
    ],
)
def test_errors_are_differences_by_the_largest_value(exact, found, error):
    both = (np.array(each, "float32") for each in (exact, found))
    assert relative_errors(*([each] for each in both)) == (error,)
