"""The table cost model answers what it holds and names what it lacks."""

from __future__ import annotations

import pytest

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.table import TableCostModel
from tvm_ios.errors import CostError
from tvm_ios.search.ios import search_ios

GRAPH = OperatorGraph(
    "pair",
    tuple(Operator(name=n, kind="k", predecessors=(), workload=n) for n in "ab"),
)
APART = Stage(((0,), (1,)))


def test_search_by_table():
    table = TableCostModel({Stage(((0,),)): 5, Stage(((1,),)): 4, APART: 6})
    found = search_ios(GRAPH, table)
    assert found.schedule.stages == (APART,)
    assert found.latency_ns == 6


def test_a_missing_price():
    table = TableCostModel({Stage(((0,),)): 5})
    with pytest.raises(
        CostError, match=r"'pair': .* no price for the merge stage \(\(0,\), \(1,\)\)"
    ):
        table.price(GRAPH, [Stage(((0,), (1,)), Strategy.MERGE)])
