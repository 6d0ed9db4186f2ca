from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import Convolution, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.measure.comparison import CompareRound, Comparison


def convolution(kernel: int) -> Convolution:
    window = {"kernel": (kernel, kernel), "padding": (kernel // 2,) * 4}
    return replace(CONV, operand="pool", input_shape=(8, 6, 6), out_channels=16, **window)


@pytest.fixture
def graph() -> OperatorGraph:
    """A pooling, three branches of which one has two operators, a concatenation, a barrier."""
    kinds = [
        ("pool", "max_pool2d", (), None),
        ("wide", "conv2d", (0,), convolution(3)),
        ("narrow", "conv2d", (0,), convolution(1)),
        ("relu", "relu", (0,), None),
        ("depthwise", "depthwise_conv2d", (3,), None),
        ("sum", "add", (3, 4), None),
        ("concat", "concatenate", (0, 1, 2, 5), None),
        ("print", "debug_print", (6,), None),
    ]
    return OperatorGraph(
        "branches",
        tuple(
            op(
                name,
                *predecessors,
                kind=kind,
                workload=kind,
                convolution=conv,
                schedulable=kind != "debug_print",
            )
            for name, kind, predecessors, conv in kinds
        ),
    )


@pytest.fixture
def schedule(graph: OperatorGraph) -> InterOpSchedule:
    """Merges the two convolutions, then runs the third branch as one group."""
    return InterOpSchedule(
        graph_name=graph.name,
        graph_fingerprint=graph.fingerprint(),
        operator_names=tuple(operator.name for operator in graph.operators),
        stages=(
            Stage(((0,),)),
            Stage(((1,), (2,)), Strategy.MERGE),
            Stage(((3, 4, 5),)),
            Stage(((6,),)),
            Stage(((7,),)),
        ),
        scheduler="hand-made",
        latency_ns=123_456,
    )


@pytest.fixture
def comparison() -> Comparison:
    """The second contestant is twice as fast, the third as fast as the first."""
    rounds = tuple(
        CompareRound(
            run_ns=(2_000_000.0 + i, 1_000_000.0 + i / 2, 2_000_000.0 + i),
            ping_pong_ns=50.0,
            slow=False,
        )
        for i in range(8)
    )
    return Comparison(
        names=("stock TVM", "IOS", "sequential"), rounds=rounds, confidence=0.95, notes=()
    )
