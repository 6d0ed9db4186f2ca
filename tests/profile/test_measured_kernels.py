"""Kernels of a built model with their times: kept in the database, told apart by their code.

Ways of single operators are priced next to each other, in simulated time: latencies are given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fake_runner import FakeStageRunner
from tests.operator_graphs import op
from tests.pricing import MEASURE, convolutions
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import open_database
from tvm_ios.cost.measured import MeasureCounters, MeasuredStages
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.profile.kernel_variant import (
    KernelVariant,
    VariantGraph,
    by_library,
    with_variants,
)
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.operator_prices import TVM, OperatorPrices
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.search.baselines import sequential_schedule

LIBRARY = "onednn"


@dataclass
class Machine:
    """What each operator takes by own kernels and by a library, and how many lanes help."""

    own_ns: Sequence[float]
    library_ns: Mapping[int, float]
    lanes: int = 2
    idle_lanes_help: bool = True
    timed: dict[tuple[int, bool, bool], int] = field(default_factory=dict)
    """Timings by operator, whether by the library, and whether with help."""

    @property
    def library_names(self) -> dict[str, dict[int, str]]:
        return {LIBRARY: dict.fromkeys(self.library_ns, "call")}

    @property
    def able(self) -> dict[str, Collection[int]]:
        return {TVM: range(len(self.own_ns)), **self.library_names}

    @property
    def graphs(self) -> dict[str, VariantGraph]:
        own = with_variants(
            self.graph,
            [KernelVariant(workload=each.workload, code="tvm") for each in self.graph.operators],
        )
        return {TVM: own, LIBRARY: by_library(own, LIBRARY, self.library_names[LIBRARY])}

    @property
    def graph(self) -> OperatorGraph:
        return OperatorGraph(
            "net",
            tuple(
                op(f"op{n}", kind="conv2d", memory_bytes=8192, flops=int(100 * ns))
                for n, ns in enumerate(self.own_ns)
            ),
        )

    def ping_pong_ns(self) -> float:
        return 50.0

    def latency_ns(self, graph: VariantGraph, stage: Stage) -> float:
        (index,) = stage.groups[0]
        variant = graph.variants[index]
        by_library = variant.maker != TVM
        key = (index, by_library, variant.split)
        self.timed[key] = self.timed.get(key, 0) + 1
        alone_ns = self.library_ns[index] if by_library else self.own_ns[index]
        return alone_ns / self.lanes if variant.split else alone_ns

    def priced(self) -> OperatorPrices:
        fake = FakeStageRunner(self.latency_ns)
        context = ProfileContext(device="fake", lanes=self.lanes, tvm_version="1", kernels="fake")
        measured = MeasuredStages(fake, context, clock_ns=fake.clock_ns, sleep_s=fake.sleep_s)
        return measure_operators(SimpleNamespace(runner=self, graph=self.graph, measured=measured))


def test_equal_kernels_have_equal_identities(runner: StageKernels) -> None:
    graph = runner.graphs[TVM]
    left, middle, right = (graph.operators[index] for index in convolutions(graph))
    assert left.workload == right.workload != middle.workload
    for index, operator in enumerate(graph.operators):
        assert operator.workload.endswith("@view") == runner.needs_no_kernel(index)
        assert operator.workload.startswith(runner.built.graph.operators[index].workload + "@")


def test_prices_are_kept_in_the_database(
    runner: StageKernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy moment would leave other operators unsplit, which are other stages to price.
    monkeypatch.setattr(runner, "ping_pong_ns", lambda: 50.0)
    stages = sequential_schedule(runner.built.graph).stages
    counted = []
    for _ in range(2):
        batches: list[MeasureCounters] = []
        database = open_database(tmp_path / "prices.sqlite")
        kernels = MeasuredKernels(runner, database=database, options=MEASURE)
        with kernels.resumable():
            operators = measure_operators(kernels, on_batch=batches.append)
            costs = StagePrices(kernels, operators.choice()).price(kernels.graph, stages)
        counted.append((kernels.counters.priced, kernels.counters.from_database, costs))
        assert bool(batches) == bool(kernels.counters.priced)
    (measured, known, first), (measured_again, known_again, second) = counted
    assert (known, measured_again) == (0, 0)
    assert measured == known_again > 0
    assert first == second


def test_an_interrupt_saves_prices_and_says_how_to_go_on(
    runner: StageKernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(tmp_path / "prices.sqlite")
    kernels = MeasuredKernels(runner, database=database, options=MEASURE)
    saved: list[bool] = []
    monkeypatch.setattr(kernels.measured, "save", lambda: saved.append(True))
    with pytest.raises(KeyboardInterrupt) as caught, kernels.resumable():
        raise KeyboardInterrupt
    (note,) = caught.value.__notes__
    assert note.startswith(f"0 measured prices are kept in {database.path}; do the same again")
    assert saved == [True]


def test_the_fastest_maker_is_chosen_operator_by_operator() -> None:
    prices = Machine(own_ns=[1e6, 1e6, 1e6], library_ns={0: 5e5, 1: 2e6}).priced()
    assert [prices.fastest_maker(index) for index in range(3)] == [LIBRARY, TVM, TVM]
    assert (prices.price_ns(0, LIBRARY), prices.by_maker[TVM][0].alone_ns) == (250_000, 1_000_000)


def test_a_way_far_slower_than_another_is_not_promising() -> None:
    machine = Machine(own_ns=[1e6, 1e6, 1e6], library_ns={0: 40e6, 1: 7e6})
    prices = machine.priced()
    assert [prices.is_promising(index, LIBRARY) for index in range(3)] == [False, True, False]
    assert all(prices.is_promising(index, TVM) for index in range(3))
    assert machine.timed[0, True, True] == 2  # a warm-up and a sample
    assert (0, True, False) not in machine.timed  # and none on one lane, which takes longer still
    assert prices.by_maker[LIBRARY][0].alone_ns == 40_000_000
    assert machine.timed[1, True, False] > 5
    assert machine.timed[1, True, True] > 5


@pytest.mark.parametrize("lanes", [2, 16])
def test_the_way_that_wins_is_priced_well_on_one_lane_too(lanes: int) -> None:
    machine = Machine(own_ns=[400e6], library_ns={0: 200e6}, lanes=lanes)
    prices = machine.priced()
    assert prices.fastest_maker(0) == LIBRARY
    assert machine.timed[0, True, False] == 1 + 3  # as many samples as a long run has
    assert prices.by_maker[LIBRARY][0].alone_ns == 200_000_000


def test_a_short_way_is_priced_without_help_however_slow_it_is() -> None:
    machine = Machine(own_ns=[1e3, 2e3, 4e3], library_ns={0: 40e3, 2: 40e6})
    prices = machine.priced()
    assert machine.timed[0, True, False] > 5
    # Nobody knows beforehand how long a library takes for little work.
    assert prices.by_maker[LIBRARY][2].alone_ns == 40_000_000


def test_many_operators_are_each_priced_by_all_ways() -> None:
    count = 70
    machine = Machine(
        own_ns=[1e3 * 10 ** (n % 4) for n in range(count)],
        library_ns={n: 1e3 * 10 ** ((n + 2) % 4) for n in range(0, count, 2)},
    )
    prices = machine.priced()
    for index, own_ns in enumerate(machine.own_ns):
        assert prices.by_maker[TVM][index].alone_ns == own_ns
        library_ns = machine.library_ns.get(index, own_ns)
        assert prices.fastest_maker(index) == (LIBRARY if library_ns < own_ns else TVM)
        assert prices.price_ns(index, prices.fastest_maker(index)) >= min(own_ns, library_ns) / 2


def test_where_no_lane_helps_there_is_one_question() -> None:
    machine = Machine(own_ns=[1e6, 1e3], library_ns={0: 400e6}, lanes=1, idle_lanes_help=False)
    prices = machine.priced()
    assert {split for _, _, split in machine.timed} == {True}
    assert (prices.price_ns(0, TVM), prices.by_maker[TVM][0].alone_ns) == (1_000_000, 1_000_000)
    assert not prices.is_promising(0, LIBRARY)


def test_help_that_gains_too_little_is_not_asked_for() -> None:
    prices = Machine(own_ns=[100.0, 1e6], library_ns={0: 200.0}, lanes=1).priced()
    assert [prices.is_unsplit(index, TVM) for index in range(2)] == [True, False]
