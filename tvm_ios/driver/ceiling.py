"""Ceiling of a model as its author wrote it, before anything is compiled: the first line of `tune`.

An ONNX file needs no TVM for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tvm_ios.core.fusing import fused_graph
from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.devices.traits import CPU, DeviceTraits
from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.plan.lanes import CORES, STREAMS
from tvm_ios.search.ceiling import Ceiling, ceiling_of

if TYPE_CHECKING:
    import tvm

__all__ = ["LOG", "Arithmetic", "graph_ceiling", "module_graph", "onnx_graph", "told_ceiling"]

LOG = logging.getLogger(__name__)
"""Logger of ceilings alone, which the command line shows where it shows no decisions."""


SHARE_OF_PEAK = 0.48
"""Share of a lane's peak at which kernels run in large networks, about. With the speeds that choose
lanes, which are lower, small operators would seem long enough to split."""
IN_BYTES, IN_BFLOAT16 = 3, 2
"""Rates at which kernels of large networks multiply bytes and bfloat16, over that of float32."""
SHARE_OF_MEMORY = 0.66
"""Likewise, the share of its speed from memory at which they move bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Types of numbers that a lane multiplies besides float32."""

    in_bytes: bool = False
    """True if products of quantised models multiply bytes."""
    in_bfloat16: bool = False
    """True if a caller asked for bfloat16."""

    def rate(self, operator: Operator, flops_per_ns: int) -> int:
        """Operations a nanosecond of an operator, for those of float32."""
        if operator.whole and self.in_bytes:
            return IN_BYTES * flops_per_ns
        return IN_BFLOAT16 * flops_per_ns if self.in_bfloat16 else flops_per_ns


FLOAT32_ONLY = Arithmetic()


def graph_ceiling(
    graph: OperatorGraph,
    lanes: Sequence[int],
    traits: DeviceTraits = CPU,
    speeds: LaneSpeeds | None = None,
    arithmetic: Arithmetic = FLOAT32_ONLY,
) -> Ceiling:
    """Ceiling of a graph on devices of a kind, by speeds of a lane; typical ones where omitted."""
    splits = traits.idle_lanes_help
    known = speeds or traits.speeds
    rates = traits.rates
    if splits:
        rates = replace(
            rates,
            flops_per_ns=round(SHARE_OF_PEAK * known.flops_per_ns),
            bytes_per_ns=round(SHARE_OF_MEMORY * known.memory_bytes_per_ns),
        )

    def guess_ns(operator: Operator) -> int:
        rate = arithmetic.rate(operator, rates.flops_per_ns)
        return replace(rates, flops_per_ns=rate).guess_ns(operator)

    return ceiling_of(
        graph,
        [0 if each.view else guess_ns(each) for each in graph.operators],
        lanes,
        hand_over=CORES if splits else STREAMS,
        splits=splits,
    )


def told_ceiling(
    graph_of: Callable[[], OperatorGraph],
    lanes: int,
    traits: DeviceTraits = CPU,
    speeds: LaneSpeeds | None = None,
    arithmetic: Arithmetic = FLOAT32_ONLY,
) -> str:
    """Line on the ceiling of a graph, logged; empty for a model that no graph executor runs."""
    try:
        line = graph_ceiling(graph_of(), [lanes], traits, speeds, arithmetic).line()
    except ModelError:
        return ""
    LOG.info("ceiling: %s", line)
    return line


def onnx_graph(file: OnnxFile) -> OperatorGraph:
    """Operators that an ONNX file has once what follows is fused; TVM is not loaded."""
    from tvm_ios.onnx.model_nodes import model_nodes  # noqa: PLC0415 - needs the package onnx

    return fused_graph(file.name, model_nodes(file.model))


def module_graph(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, name: str = "model"
) -> OperatorGraph:
    """Operators that a Relay module has once what follows is fused; nothing is compiled.

    Raises ModelError where no graph executor runs the module.
    """
    from tvm_ios.relay.extract import extract, is_prepared  # noqa: PLC0415 - TVM comes in here
    from tvm_ios.relay.inputs import check_module  # noqa: PLC0415
    from tvm_ios.relay.model_nodes import model_nodes, typed_if_plain  # noqa: PLC0415

    typed = typed_if_plain(mod) or check_module(mod)
    if is_prepared(typed):
        return extract(typed, name=name).graph
    return fused_graph(name, model_nodes(typed, params or {}))
