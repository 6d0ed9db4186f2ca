"""The synthetic cost by its formula, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import CostError
from tvm_ios_lab.problems.synthetic import PrimitiveWork, SyntheticConstants, SyntheticCostModel

CONSTANTS = SyntheticConstants(peak_per_ns=10, saturation=100, launch_ns=5, host_ns=3, barrier_ns=7)


def conv(kernel):
    padding = (kernel[0] // 2, kernel[1] // 2) * 2
    return replace(CONV, input_shape=(4, 5, 5), out_channels=2, kernel=kernel, padding=padding)


GRAPH = OperatorGraph(
    "g", (op("a", convolution=conv((1, 3))), op("b", convolution=conv((3, 1))), op("c"))
)
MODEL = SyntheticCostModel(
    CONSTANTS,
    [
        [PrimitiveWork(650, 50, 1)],  # alone 5 + 65000/500 = 135, throughput 65
        [PrimitiveWork(650, 50, 1)],
        [PrimitiveWork(0, 200, 0), PrimitiveWork(2001, 200, 2)],  # 10 + 201 rounded up; 201
    ],
)


@pytest.mark.parametrize(
    ("groups", "latency"),
    [
        (((0,),), 135),
        (((2,),), 211),
        (((0, 1),), 270),
        (((0,), (1,)), 135 + 7),
        (((0,), (1,), (2,)), 65 + 65 + 201 + 7),
    ],
)
def test_concurrent(groups, latency):
    assert MODEL.price(GRAPH, [Stage(groups)]) == [latency]


def test_the_host_bounds_many_small_kernels():
    model = SyntheticCostModel(CONSTANTS, [[PrimitiveWork(0, 1, 1)]] * 3)
    assert model.price(GRAPH, [Stage(((0,), (1,), (2,)))]) == [3 * 3 + 7]


def test_merged():
    # 100 output elements, 4 input channels, 3 x 3 kernel: work 3700, at full speed.
    stage = Stage(((0,), (1,)), Strategy.MERGE)
    assert MODEL.price(GRAPH, [stage]) == [5 + 370]


def test_errors():
    with pytest.raises(CostError, match=r"operator 2 \('c'\) is merged but is no convolution"):
        MODEL.price(GRAPH, [Stage(((0,), (2,)), Strategy.MERGE)])
    with pytest.raises(CostError, match="has 0 operators, the recorded work is of 3"):
        MODEL.price(OperatorGraph("empty", ()), [])
