"""Note on products that are computed far more slowly than others of the same network.

The peak of the machine is not known here. The rate of the network's fastest product or convolution
stands for it, which the machine did reach.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.core.graph import Operator, OperatorGraph

__all__ = ["slow_products"]

PRODUCTS = ("dense", "matmul")
SLOW = 1 / 3
"""Share of the yardstick below which a product is slow."""
FLOPS_A_BYTE = 16
"""Operations a byte from which on arithmetic limits a product; before that memory may."""
MOST_NAMES = 5


def slow_products(graph: OperatorGraph, operator_ns: Sequence[int]) -> tuple[str, ...]:
    """Note on products below a third of the greatest rate in a network; empty where none is.

    ``operator_ns`` are the times of the graph's operators on one lane; empty where unknown.
    Products that memory may limit, as those with one row, are not judged.
    """
    times_ns = dict(zip(graph.operators, operator_ns, strict=False))
    rates = {
        each: each.flops / elapsed_ns
        for each, elapsed_ns in times_ns.items()
        if elapsed_ns and _is_limited_by_arithmetic(each)
    }
    fastest = max(rates, key=rates.__getitem__, default=None)
    slow = [
        each for each in rates if each.kind in PRODUCTS and rates[each] < SLOW * max(rates.values())
    ]
    if fastest is None or not slow:
        return ()
    slow.sort(key=times_ns.__getitem__, reverse=True)
    names = ", ".join(each.name for each in slow[:MOST_NAMES])
    more = f" and {len(slow) - MOST_NAMES} more" if len(slow) > MOST_NAMES else ""
    share = sum(times_ns[each] for each in slow) / sum(operator_ns)
    return (
        f"products below a third of the {rates[fastest]:.0f} GFLOPS that {fastest.name} reaches on "
        f"one lane: {names}{more}, {share:.0%} of the time of all operators",
    )


def _is_limited_by_arithmetic(operator: Operator) -> bool:
    heavy = operator.kind in PRODUCTS or "conv" in operator.kind
    return heavy and operator.flops >= FLOPS_A_BYTE * max(1, operator.memory_bytes)
