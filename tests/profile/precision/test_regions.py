"""Operators that work in bfloat16, by prices of products that are given."""

from __future__ import annotations

from dataclasses import replace

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.precision.low_values import LowValues
from tvm_ios.devices.traits import CPU
from tvm_ios.profile.precision.regions import CONVERSION_NS, RegionCosts

FEW = {"output_elements": 8, "memory_bytes": 64, "flops": 1000}
GRAPH = OperatorGraph("net", (op("a", **FEW), op("b", 0, **FEW), op("c", 1, **FEW)))
"""A product, an operator that TVM computes, and another product."""
COSTS = RegionCosts(
    graph=GRAPH,
    values=LowValues(operators=(), outputs=()),
    results=frozenset({0, 1, 2}),
    products=(True, False, True),
    exact_ns=[9000, None, 9000],
    low_ns=[5000, None, 5000],
    speeds=CPU.speeds,
    lanes=2,
)


def cheapest(**changes):
    return replace(COSTS, **changes).cheapest()


def test_products_that_gain_take_what_lies_between_them_along():
    assert cheapest() == (True, True, True)


def test_a_product_that_gains_less_than_its_conversion_stays_float32():
    alone = OperatorGraph("net", (op("a", **FEW), op("c", 0, **FEW)))
    two = {"graph": alone, "products": (True, True), "results": frozenset({1})}
    little = 9000 - CONVERSION_NS
    assert cheapest(**two, exact_ns=[9000, 9000], low_ns=[9500, little + 100])[1] is False
    assert cheapest(**two, exact_ns=[9000, 9000], low_ns=[9500, little - 200])[1] is True


def test_a_product_that_no_library_computes_so_stays_float32_with_what_it_reads():
    assert cheapest(low_ns=[5000, None, None], exact_ns=[9000, None, None]) == (True, False, False)


def test_a_product_in_float32_converts_what_it_reads_where_that_pays():
    found = cheapest(low_ns=[5000, None, None])
    assert found[0] is True
    assert found[2] is False


def test_values_that_may_not_be_bfloat16_are_not():
    assert cheapest(results=frozenset()) == (True, False, True)
    assert cheapest(results=frozenset(), low_ns=[8900, None, 8900]) == (True, False, False)
