"""The note on slow products: whom it names, and that there is none otherwise."""

from __future__ import annotations

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.report.slow_products import slow_products


def network(*operators: tuple[str, int]) -> OperatorGraph:
    """Operators of 1,000,000 operations; names and bytes are given."""
    return OperatorGraph(
        "net",
        tuple(
            op(name, kind=name.rstrip("_0123456789"), flops=1_000_000, memory_bytes=size)
            for name, size in operators
        ),
    )


def test_slow_products_are_named_with_their_share_the_slowest_first():
    graph = network(("conv2d_0", 100), ("dense_0", 100), ("matmul_0", 100), ("add_0", 100))
    (note,) = slow_products(graph, [10_000, 40_000, 50_000, 100_000])
    assert note == (
        "products below a third of the 100 GFLOPS that conv2d_0 reaches on one lane: "
        "matmul_0, dense_0, 45% of the time of all operators"
    )


def test_many_products_are_counted():
    graph = network(("dense", 100), *((f"matmul_{n}", 100) for n in range(7)))
    (note,) = slow_products(graph, [1000, *[4000] * 7])
    assert "matmul_4 and 2 more, " in note


def test_no_note_where_no_product_is_slow():
    graph = network(("conv2d_0", 100), ("dense_0", 100))
    assert slow_products(graph, [10_000, 29_000]) == ()
    assert slow_products(graph, [29_000, 10_000]) == ()
    assert slow_products(graph, [40_000, 10_000]) == (), "a convolution is no product"
    assert slow_products(graph, ()) == slow_products(network(("add", 9)), [5]) == ()


def test_products_that_memory_limits_are_not_judged_and_no_yardstick():
    one_row = ("dense_0", 500_000)
    assert slow_products(network(("conv2d_0", 100), one_row), [10_000, 90_000]) == ()
    assert slow_products(network(("dense_1", 100), one_row), [40_000, 10_000]) == ()
