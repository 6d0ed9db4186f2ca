"""Table 1 of the paper: how large the search space of each network is, counted exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Strategy
from tvm_ios.report.table import Table
from tvm_ios.search.block_graph import BlockGraph, make_block_graph
from tvm_ios.search.native_space import make_state_space
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.checkout import PAPER_NETWORKS, distinct_parts
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of

__all__ = ["PUBLISHED", "CountedBlock", "Counts", "CountsCell"]

RULES = {"published": EndingRule.PUBLISHED, "definition": EndingRule.COMPLETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsCell:
    """Network, by the endings that the published code has, or by the paper's definition."""

    network: str
    endings: str
    """A key of :data:`RULES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedBlock:
    """The block of a network that has the most transitions."""

    operators: int
    """The paper's n."""
    width: int
    """Most operators that are independent of one another, the paper's d."""
    states: int
    transitions: int
    schedules: int

    @property
    def bound(self) -> float:
        """The paper's bound on transitions (theorem 1): C(n/d + 2, 2) to the power d."""
        chain = self.operators / self.width
        return ((chain + 2) * (chain + 1) / 2) ** self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCounts:
    """A row of Table 1, as printed there: two digits, but for SqueezeNet's transitions."""

    operators: int
    width: int
    bound: str
    transitions: str
    schedules: str


PUBLISHED = {
    "Inception V3": PublishedCounts(
        operators=11, width=6, bound="2.6e4", transitions="4.9e3", schedules="3.8e6"
    ),
    "RandWire": PublishedCounts(
        operators=33, width=8, bound="3.7e9", transitions="1.2e6", schedules="9.2e22"
    ),
    "NasNet-A": PublishedCounts(
        operators=18, width=8, bound="5.2e6", transitions="3.1e5", schedules="7.2e12"
    ),
    "SqueezeNet": PublishedCounts(
        operators=6, width=3, bound="2.2e2", transitions="51", schedules="1.3e2"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts states, transitions and schedules of every network's largest block, unpruned."""

    name: str = "counts"
    title: str = "Table 1: the size of the search space"
    published: str = (
        "Ding et al., MLSys 2021, Table 1, for the block of each network with the most "
        "transitions, without pruning."
    )
    notes: tuple[str, ...] = (
        "Counts are exact. n counts the operator that ends a block; d is the size of the largest "
        "set of independent operators. The published code tries no group of several sources, so "
        "it has fewer transitions than the paper's definition of an ending gives.",
    )
    found_kind: type[CountedBlock] = CountedBlock

    def cells(self, _: Settings) -> tuple[CountsCell, ...]:
        """Every network by both rules."""
        return tuple(
            CountsCell(network=network, endings=endings)
            for network in PAPER_NETWORKS
            for endings in RULES
        )

    def measure(self, cell: CountsCell, _: Bench) -> CountedBlock:
        """Count the block that has the most transitions in the published code, by either rule."""
        graphs = [part.graph for part, _ in distinct_parts(cell.network).values()]
        counted = [(_count(graph, EndingRule.PUBLISHED), graph) for graph in graphs]
        block, graph = max(counted, key=lambda each: each[0].transitions)
        rule = RULES[cell.endings]
        return block if rule is EndingRule.PUBLISHED else _count(graph, rule)

    def table(self, outcomes: Sequence[Outcome[CountsCell, CountedBlock]]) -> Table:
        """A row for each network and rule; published numbers beside the published rule."""
        header = ("network", "endings", "n", "d", "bound", "states", "transitions", "schedules")
        told = ("n, d", "bound", "transitions", "schedules")
        return table_of((*header, *(f"published {name}" for name in told)), outcomes, _rows)

    def panels(self, outcomes: Sequence[Outcome[CountsCell, CountedBlock]]) -> tuple[Panel, ...]:
        """Transitions and schedules as powers of ten."""
        found = {
            (each.cell.network, each.cell.endings): each.found
            for each in outcomes
            if each.found is not None
        }

        def powers(endings: str, what: str) -> tuple[float | None, ...]:
            blocks = (found.get((network, endings)) for network in PAPER_NETWORKS)
            return tuple(None if b is None else math.log10(getattr(b, what)) for b in blocks)

        told = {
            what: tuple(math.log10(float(getattr(PUBLISHED[n], what))) for n in PAPER_NETWORKS)
            for what in ("transitions", "schedules")
        }
        return tuple(
            Bars(
                title=f"{what.capitalize()} of the largest block",
                y_label="power of ten",
                groups=tuple(PAPER_NETWORKS),
                series=(
                    Series(name="endings of the published code", values=powers("published", what)),
                    Series(name="by definition", values=powers("definition", what)),
                    Series(name="published", values=values, published=True),
                ),
            )
            for what, values in told.items()
        )


def _rows(cell: CountsCell, found: CountedBlock) -> list[tuple[str, ...]]:
    ours = (
        cell.network,
        cell.endings,
        str(found.operators),
        str(found.width),
        f"{found.bound:.2g}",
        str(found.states),
        str(found.transitions),
        str(found.schedules),
    )
    told = PUBLISHED[cell.network]
    if RULES[cell.endings] is not EndingRule.PUBLISHED:
        return [(*ours, "-", "-", "-", "-")]
    sizes = f"{told.operators}, {told.width}"
    return [(*ours, sizes, told.bound, told.transitions, told.schedules)]


def _count(graph: OperatorGraph, endings: EndingRule) -> CountedBlock:
    options = SearchOptions(
        strategies=frozenset({Strategy.CONCURRENT}),
        max_group_size=0,
        max_num_groups=0,
        endings=endings,
    )
    block = make_block_graph(graph, range(len(graph)))
    space = make_state_space(block, options)
    return CountedBlock(
        operators=len(graph),
        width=_width(block),
        states=space.num_states,
        transitions=space.num_transitions,
        schedules=space.count_schedules(),
    )


def _width(block: BlockGraph) -> int:
    """Size of the largest antichain: operators less a maximum matching of the order (Dilworth)."""
    partner: dict[int, int] = {}

    def augment(operator: int, tried: set[int]) -> bool:
        below = block.descendants[operator] & ~(1 << operator)
        for other in range(len(block)):
            if below >> other & 1 and other not in tried:
                tried.add(other)
                if other not in partner or augment(partner[other], tried):
                    partner[other] = operator
                    return True
        return False

    return len(block) - sum(augment(operator, set()) for operator in range(len(block)))
