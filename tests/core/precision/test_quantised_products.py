"""Lines on what a quantised model computes in int8."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.precision.quantised_products import QuantisedProducts
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.search.baselines import sequential_schedule

GRAPH = OperatorGraph("net", tuple(replace(op(name), whole=True) for name in "abc"))
SCHEDULE = replace(sequential_schedule(GRAPH), libraries=(LibraryOperators("onednn", (0, 2)),))


@pytest.mark.parametrize(
    ("others", "line"),
    [
        ((), "quantised: 2 of 3 products are in int8; in float32: 1 by kernels that read bytes"),
        (
            (("of two computed inputs", 4),),
            "quantised: 2 of 7 products are in int8; in float32: 1 by kernels that read bytes, "
            "4 of two computed inputs",
        ),
    ],
)
def test_products_in_float32_have_their_reasons(others, line):
    assert QuantisedProducts(others=others).line(GRAPH, SCHEDULE) == line


def test_a_target_without_products_of_bytes_is_told_what_would_be_faster():
    graph = OperatorGraph("net", (op("a"),))
    products = QuantisedProducts(others=(("", 1),), never="the target has no VNNI")
    line = products.line(graph, sequential_schedule(graph))
    assert line.startswith("quantised: all 1 products are computed in float32, since the target")
    assert "the float32 original would likely be faster" in line


def test_a_model_without_products_has_no_line():
    graph = OperatorGraph("net", (op("a"),))
    assert QuantisedProducts(others=()).line(graph, sequential_schedule(graph)) == ""
