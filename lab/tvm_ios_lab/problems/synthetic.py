"""An analytical cost model for recorded problems: no device, whole nanoseconds, same everywhere.

An operator is a row of primitives, each with work W, output elements O and kernel count K. Alone,
a primitive takes its launches and its work at the speed that O elements of parallelism allow;
together, operators cannot beat the peak speed nor the rate at which the host launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.core.schedule import Stage
from tvm_ios.errors import CostError

__all__ = ["PrimitiveWork", "SyntheticConstants", "SyntheticCostModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticConstants:
    """The device of the synthetic cost."""

    peak_per_ns: int
    """Work per nanosecond of the busy device."""
    saturation: int
    """Output elements that keep the device busy."""
    launch_ns: int
    """Latency of one kernel."""
    host_ns: int
    """Host time to launch one kernel."""
    barrier_ns: int
    """Synchronisation of a stage with more than one group."""


@dataclass(frozen=True, slots=True)
class PrimitiveWork:
    """Work of one primitive of an operator."""

    work: int
    """Multiply-adds and element operations."""
    output_elements: int
    kernels: int


@dataclass(frozen=True, slots=True)
class _Load:
    alone_ns: int
    throughput_ns: int
    kernels: int


class SyntheticCostModel:
    """Prices stages by formula; a :class:`~tvm_ios.cost.protocol.CostModel` with floors.

    Parameters
    ----------
    constants
        The device.
    works
        Primitives of every operator of the graph, by operator index.
    """

    def __init__(
        self, constants: SyntheticConstants, works: Sequence[Sequence[PrimitiveWork]]
    ) -> None:
        self._constants = constants
        self._works = tuple(tuple(row) for row in works)
        self._loads = [_total([_load(p, constants) for p in row]) for row in self._works]
        self._groups: dict[tuple[int, ...], _Load] = {}

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Latency of each stage in nanoseconds."""
        if len(graph) != len(self._loads):
            raise CostError(
                f"graph {graph.name!r} has {len(graph)} operators, the recorded work is of "
                f"{len(self._loads)}; use the cost model of this graph"
            )
        return [
            self._merged(graph, stage) if stage.is_merge else self._concurrent(stage)
            for stage in stages
        ]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> list[int]:
        """Nanoseconds that no stage costs less than that contains the stage of this price.

        A merge is priced by the last row of its members, so it may cost less than one of them.
        """
        return [
            min(price_ns, self._merged(graph, stage))
            if len(stage.operators) == 1 and _may_merge(graph, stage.operators[0])
            else price_ns
            for stage, price_ns in zip(stages, prices_ns, strict=True)
        ]

    def _concurrent(self, stage: Stage) -> int:
        longest = throughput = kernels = 0
        for group in stage.groups:
            load = self._groups.get(group)
            if load is None:
                load = self._groups[group] = _total([self._loads[index] for index in group])
            # This line runs a million times, and max() takes twice as long.
            if load.alone_ns > longest:  # noqa: PLR1730
                longest = load.alone_ns
            throughput += load.throughput_ns
            kernels += load.kernels
        latency = max(longest, throughput, self._constants.host_ns * kernels)
        return latency + (self._constants.barrier_ns if len(stage.groups) > 1 else 0)

    def _merged(self, graph: OperatorGraph, stage: Stage) -> int:
        """Price of one convolution: output channels summed, kernels the largest on each axis."""
        outputs = height = width = channels = 0
        for index in stage.operators:
            convolution = graph.operators[index].convolution
            if convolution is None:
                raise CostError(
                    f"graph {graph.name!r}: operator {index} "
                    f"({graph.operators[index].name!r}) is merged but is no convolution"
                )
            outputs += self._works[index][-1].output_elements
            height = max(height, convolution.kernel[0])
            width = max(width, convolution.kernel[1])
            channels = convolution.input_shape[0]
        work = PrimitiveWork(outputs * channels * height * width + outputs, outputs, 1)
        load = _load(work, self._constants)
        return max(load.alone_ns, load.throughput_ns, self._constants.host_ns)


def _may_merge(graph: OperatorGraph, index: int) -> bool:
    convolution = graph.operators[index].convolution
    return convolution is not None and why_not_merge([convolution, convolution]) is None


def _load(work: PrimitiveWork, constants: SyntheticConstants) -> _Load:
    speed = constants.peak_per_ns * min(work.output_elements, constants.saturation)
    return _Load(
        alone_ns=constants.launch_ns * work.kernels
        + (-(-work.work * constants.saturation // speed) if work.work else 0),
        throughput_ns=-(-work.work // constants.peak_per_ns),
        kernels=work.kernels,
    )


def _total(loads: Sequence[_Load]) -> _Load:
    return _Load(
        alone_ns=sum(load.alone_ns for load in loads),
        throughput_ns=sum(load.throughput_ns for load in loads),
        kernels=sum(load.kernels for load in loads),
    )
