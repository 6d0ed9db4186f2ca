"""Networks of measured cells: which they are, and how schedules are carried between them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.models.count import count
from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.errors import CostError
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.measured.network import PricedNetwork, network_of


def graph_of(*predecessors, name):
    rows = enumerate(predecessors)
    return OperatorGraph(
        name, tuple(op(f"op{n}", *row, workload=f"{name} {n}", flops=1) for n, row in rows)
    )


class Unsettled(PricedNetwork):
    """A network of which nobody computes anything."""

    prices = SimpleNamespace(annotate=lambda schedule: schedule)


def on(graph):
    return Unsettled(built=None, kernels=SimpleNamespace(graph=graph), call=None)


def test_schedules_are_carried_to_the_same_edges_only():
    fork, other = (graph_of((), (0,), (0,), name=name) for name in ("batch 1", "batch 8"))
    found = greedy_schedule(fork)
    carried = on(other).carried(found, fork)
    assert carried.stages == found.stages
    carried.require_graph(other)
    chain = graph_of((), (0,), (1,), name="batch 32")
    with pytest.raises(CostError, match="batch 1 has 3 operators .* or other edges"):
        on(chain).carried(found, fork)


def test_the_sample_network_has_the_multiply_adds_of_the_readmes():
    module, params = network_of("Sample", CpuRun(lanes=1, rounds=6, small=False))
    assert count(module, params).macs == 15 * 15 * 9 * 375 * (375 + 750 + 375 + 750)


def test_quick_cells_have_small_networks():
    full, small = (
        network_of("SqueezeNet", CpuRun(lanes=1, rounds=6, small=small, batch=2))[0]
        for small in (False, True)
    )
    shapes = [tuple(module["main"].params[0].checked_type.shape) for module in (full, small)]
    assert shapes == [(2, 3, 224, 224), (2, 3, 64, 64)]
