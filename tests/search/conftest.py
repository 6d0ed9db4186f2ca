"""What search tests share: golden problems, and NASNet-A large as recorded work, with no TVM.

Cells are as in Zoph et al., CVPR 2018, in the variant that IOS measured; units are those of IOS.

A unit is one schedulable operator: ReluConv, ReluSepConv, a pool, or an identity that hosts a sum
or a concatenation. Work is counted as for the golden files: every sum of v values costs v times its
elements, a concatenation its elements, each one kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.partition import Partition, ScheduleBlock
from tvm_ios_lab.problems.problem import RecordedProblem, parse_problem
from tvm_ios_lab.problems.synthetic import PrimitiveWork, SyntheticConstants, SyntheticCostModel

CONSTANTS = SyntheticConstants(
    peak_per_ns=7000, saturation=163840, launch_ns=5000, host_ns=2500, barrier_ns=10000
)

Terms = list[list[int]]
"""Values of a term are summed, terms are concatenated; a value is the unit that makes it."""


@dataclass
class Network:
    """Units in topological order; ``parts`` are what is scheduled together."""

    works: list[list[PrimitiveWork]] = field(default_factory=list)
    shapes: list[tuple[int, int]] = field(default_factory=list)
    """Channels and side length of every output."""
    reads: list[list[int]] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)

    def _add(self, terms: Terms, primitives: list[list[int]], shape: tuple[int, int]) -> int:
        elements = [self.shapes[term[0]][0] * self.shapes[term[0]][1] ** 2 for term in terms]
        for term, size in zip(terms, elements, strict=True):
            if len(term) > 1:
                primitives[0][0] += len(term) * size
                primitives[0][2] += 1
        if len(terms) > 1:
            primitives[0][0] += sum(elements)
            primitives[0][2] += 1
        self.works.append([PrimitiveWork(*row) for row in primitives])
        self.shapes.append(shape)
        self.reads.append(sorted({value for term in terms for value in term}))
        self.parts[-1].append(len(self.works) - 1)
        return len(self.works) - 1

    def _operand(self, terms: Terms) -> tuple[int, int]:
        return sum(self.shapes[t[0]][0] for t in terms), self.shapes[terms[0][0]][1]

    def conv0(self) -> int:
        outputs = 96 * 165**2
        self.works.append([PrimitiveWork(outputs * 27 + outputs, outputs, 1)])
        self.shapes.append((96, 165))
        self.reads.append([])
        self.parts.append([0])
        return 0

    def relu_conv(self, terms: Terms, out: int, stride: int = 1) -> int:
        channels, side = self._operand(terms)
        size = channels * side**2
        after = (side - 1) // stride + 1
        outputs = out * after**2
        rows = [[size, size, 1], [outputs * channels + outputs, outputs, 1]]
        return self._add(terms, rows, (out, after))

    def separable(self, terms: Terms, out: int, kernel: int, stride: int = 1) -> int:
        channels, side = self._operand(terms)
        size = channels * side**2
        after = (side - 1) // stride + 1
        depth, outputs = channels * after**2, out * after**2
        rows = [
            [size, size, 1],
            [depth * kernel**2 + depth, depth, 1],
            [outputs * channels + outputs, outputs, 1],
        ]
        return self._add(terms, rows, (out, after))

    def branch(self, terms: Terms, out: int, kernel: int, stride: int = 1) -> int:
        # The first half keeps its channels, but not that of 96 in the stem.
        between = min(out, self._operand(terms)[0])
        return self.separable([[self.separable(terms, between, kernel, stride)]], out, kernel)

    def pool(self, terms: Terms, stride: int = 1) -> int:
        channels, side = self._operand(terms)
        after = (side - 1) // stride + 1
        outputs = channels * after**2
        return self._add(terms, [[outputs * 9, outputs, 1]], (channels, after))

    def identity(self, terms: Terms) -> int:
        channels, side = self._operand(terms)
        return self._add(terms, [[0, channels * side**2, 0]], (channels, side))

    def normal(self, previous: int, current: int, filters: int) -> int:
        self.parts.append([])
        left = self.relu_conv([[previous]], filters)
        right = self.relu_conv([[current]], filters)
        terms = [
            [self.branch([[right]], filters, 5), self.branch([[left]], filters, 3)],
            [self.branch([[left]], filters, 5), self.branch([[left]], filters, 3)],
            [self.pool([[right]]), left],
            [self.pool([[left]]), self.pool([[left]])],
            [self.branch([[right]], filters, 3), right],
        ]
        return self.identity(terms)

    def first(self, previous: int, current: int, left_filters: int, filters: int) -> int:
        self.parts.append([])
        halves = [[self.relu_conv([[previous]], left_filters, 2)] for _ in range(2)]
        left = self.identity(halves)
        right = self.relu_conv([[current]], filters)
        terms = [
            [left],
            [self.branch([[right]], filters, 5), self.branch([[right]], filters, 3)],
            [self.branch([[left]], filters, 5), self.branch([[left]], filters, 3)],
            [self.pool([[right]]), left],
            [self.pool([[left]]), self.pool([[left]])],
            [self.branch([[right]], filters, 3), right],
        ]
        return self.identity(terms)

    def reduction(self, previous: int, current: int, filters: int) -> int:
        self.parts.append([])
        left = self.relu_conv([[previous]], filters)
        return self._reduce(left, self.relu_conv([[current]], filters), filters, again=True)

    def stem0(self, image: int, filters: int) -> int:
        self.parts.append([])
        return self._reduce(image, self.relu_conv([[image]], filters), filters)

    def stem1(self, image: int, current: int, filters: int) -> int:
        self.parts.append([])
        right = self.relu_conv([[current]], filters)
        halves = [self.relu_conv([[image]], filters // 2, 2) for _ in range(2)]
        return self._reduce(self.identity([halves]), right, filters)

    def _reduce(self, left: int, right: int, filters: int, *, again: bool = False) -> int:
        # The published reduction cells compute the second sum once more for their output.
        sum0 = [self.branch([[right]], filters, 5, 2), self.branch([[left]], filters, 7, 2)]
        host0 = self.identity([sum0])
        sum1 = [self.pool([[right]], 2), self.branch([[left]], filters, 7, 2)]
        host1 = self.identity([sum1])
        terms = [
            sum1 if again else [host1],
            [self.pool([[right]], 2), self.branch([[left]], filters, 5, 2)],
            [host1, self.pool([[host0]])],
            [self.branch([[host0]], filters, 3), self.pool([[right]], 2)],
        ]
        return self.identity(terms)

    def tail(self, last: int) -> None:
        channels, side = self.shapes[last]
        size = channels * side**2
        self.parts.append([])
        relu = self._add([[last]], [[size, size, 1]], (channels, side))
        self.parts.append([])
        self._add([[relu]], [[channels * side**2, channels, 1]], (channels, 1))

    def graph(self, part: int | None = None) -> tuple[OperatorGraph, SyntheticCostModel]:
        """One part as a graph of its own, or the whole network."""
        units = range(len(self.works)) if part is None else self.parts[part]
        local = {unit: index for index, unit in enumerate(units)}
        operators = tuple(
            Operator(
                name=f"u{unit}",
                kind="unit",
                predecessors=tuple(sorted(local[r] for r in self.reads[unit] if r in local)),
                workload=str(self.works[unit]),
            )
            for unit in units
        )
        model = SyntheticCostModel(CONSTANTS, [self.works[unit] for unit in units])
        return OperatorGraph("nasnet" if part is None else f"nasnet part {part}", operators), model


def nasnet_large() -> Network:
    """All 374 units in 25 parts."""
    net = Network()
    image = net.conv0()
    stem0 = net.stem0(image, 42)
    stem1 = net.stem1(image, stem0, 84)
    before, previous, current = stem0, stem1, net.first(stem0, stem1, 84, 168)
    for filters in (168, 336, 672):
        if filters > 168:
            reduced = net.reduction(previous, current, filters)
            before = previous
            previous, current = reduced, net.first(before, reduced, filters // 2, filters)
        for _ in range(5):
            previous, current = current, net.normal(previous, current, filters)
    net.tail(current)
    return net


@pytest.fixture(scope="session")
def nasnet() -> Network:
    """NASNet-A large, 374 units in 25 parts."""
    return nasnet_large()


@pytest.fixture(scope="session")
def golden() -> dict[str, tuple[dict[str, Any], RecordedProblem]]:
    """The golden files by network: as JSON, and as recorded problems."""
    folder = Path(__file__).parent.parent / "golden"
    files = {path.stem.removesuffix("_bs1"): path for path in folder.glob("*_bs1.json")}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    return {name: (json.loads(text), parse_problem(text)) for name, text in texts.items()}


@pytest.fixture(scope="session")
def one_block() -> Callable[[OperatorGraph], Partition]:
    """The partition that keeps a graph whole."""

    def whole(graph: OperatorGraph) -> Partition:
        return Partition(blocks=(ScheduleBlock(operators=tuple(range(len(graph)))),))

    return whole
