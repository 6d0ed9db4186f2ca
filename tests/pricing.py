"""Quick options for tests of prices, and prices and choices as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.local import LocalCpu
from tvm_ios.host import default_lanes
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.operator_prices import TVM, OperatorChoice, OperatorPrice, OperatorPrices
from tvm_ios.profile.stage_kernels import StageKernels

__all__ = [
    "LANES",
    "MEASURE",
    "chain_graph",
    "convolutions",
    "plain_choice",
    "plain_prices",
    "stage_runner",
]

LANES = min(2, default_lanes())
# A busy machine is no concern of these tests: no waiting for its fast mode, no price flagged.
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM)


def convolutions(graph: OperatorGraph) -> list[int]:
    """Convolutions of the first level, which read the same operand."""
    operands = [o.convolution.operand if o.convolution else None for o in graph.operators]
    first = next(operand for operand in operands if operand)
    return [index for index, operand in enumerate(operands) if operand == first]


@contextmanager
def stage_runner(
    built: Any, kind: type[StageKernels] = StageKernels, **options: Any
) -> Iterator[StageKernels]:
    """Runner of a build's stages on this CPU."""
    with LocalCpu().open() as session, kind(built, session=session, **options) as runner:
        yield runner


def chain_graph(count: int, *, memory_bytes: int = 8192) -> OperatorGraph:
    """Graph of operators that read one another."""
    return OperatorGraph(
        "net",
        tuple(
            op(f"op{n}", *range(n)[-1:], kind="conv2d", memory_bytes=memory_bytes)
            for n in range(count)
        ),
    )


def plain_prices(
    graph: OperatorGraph,
    alone_ns: Sequence[int],
    libraries: Mapping[str, Mapping[int, int]] | None = None,
) -> OperatorPrices:
    """Prices with twice the speed on two lanes; those of libraries by operator, on one lane."""
    rows = {TVM: dict(enumerate(alone_ns)), **(libraries or {})}
    return OperatorPrices(
        graph=graph,
        by_maker={
            maker: {
                index: OperatorPrice(alone_ns=ns, helped_ns=max(1, ns // 2))
                for index, ns in row.items()
            }
            for maker, row in rows.items()
        },
    )


def plain_choice(
    graph: OperatorGraph, alone_ns: int | Sequence[int] = 1000, *, unsplit: Iterable[int] = ()
) -> OperatorChoice:
    """Choice of TVM's kernels for all operators."""
    each_ns = [alone_ns] * len(graph) if isinstance(alone_ns, int) else alone_ns
    return OperatorChoice(
        prices=plain_prices(graph, each_ns), makers=(TVM,) * len(graph), unsplit=tuple(unsplit)
    )
