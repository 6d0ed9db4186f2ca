"""The lazy search: the exhaustive optimum from few prices."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import CONV, op
from tvm_ios.core.endings import EndingRule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.partition import Partition, ScheduleBlock
from tvm_ios.core.schedule import Strategy
from tvm_ios.search import lazy
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.problems.synthetic import PrimitiveWork, SyntheticConstants, SyntheticCostModel

CONCURRENT = frozenset({Strategy.CONCURRENT})


def _both_ways(graph, model, one_block, **options):
    options = SearchOptions(centred_merges=True, **options)
    whole = one_block(graph)
    exhaustive = search_ios(graph, model, options, lazy=False, partition=whole)
    lazy = search_ios(graph, model, options, partition=whole)
    assert exhaustive.priced == exhaustive.distinct_stages == lazy.distinct_stages
    assert lazy.latency_ns == exhaustive.latency_ns
    assert lazy.num_schedules == exhaustive.num_schedules
    return lazy.priced, exhaustive.priced


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("part", [5, 6, 7, 8, 10, 11])
def test_inception_prices_a_fifth_at_most(golden, one_block, part, native):
    recorded = golden["inception_v3"][1].parts[part]
    for rule in EndingRule:
        lazy, all_of_them = _both_ways(
            recorded.graph, recorded.cost_model, one_block, endings=rule, native=native
        )
        assert 10 * lazy < all_of_them


@pytest.mark.parametrize("part", [1, 2, 3, 4, 9])
@pytest.mark.slow
def test_nasnet_prices_a_fifth_at_most(nasnet, one_block, part):
    graph, model = nasnet.graph(part)
    for rule in EndingRule:
        lazy, all_of_them = _both_ways(graph, model, one_block, endings=rule)
        assert 5 * lazy < all_of_them


@pytest.mark.slow
def test_nasnet_cell_in_plain_python(nasnet, one_block):
    graph, model = nasnet.graph(1)
    lazy, all_of_them = _both_ways(graph, model, one_block, native=False)
    assert 5 * lazy < all_of_them


@pytest.mark.parametrize("part", [2, 3, 4])
@pytest.mark.slow
def test_randwire_prices_a_twentieth_at_most(golden, one_block, part):
    recorded = golden["randwire"][1].parts[part]
    options = SearchOptions(strategies=CONCURRENT)
    found = search_ios(
        recorded.graph, recorded.cost_model, options, partition=one_block(recorded.graph)
    )
    assert found.latency_ns == {2: 423720, 3: 462175, 4: 434096}[part]
    assert 20 * found.priced < found.distinct_stages


@st.composite
def problems(draw):
    """Random graphs with the synthetic cost, for which both bounds are true."""
    count = draw(st.integers(1, 8))
    operators = tuple(
        op(str(head), *(t for t in range(head) if draw(st.integers(0, 2)) == 0), workload="w")
        for head in range(count)
    )
    number = st.integers(1, 500)
    works = [[PrimitiveWork(draw(number), draw(number), 1)] for _ in operators]
    constants = SyntheticConstants(
        peak_per_ns=draw(st.integers(1, 20)),
        saturation=draw(st.integers(1, 300)),
        launch_ns=draw(st.integers(0, 30)),
        host_ns=draw(st.integers(0, 20)),
        barrier_ns=draw(st.integers(0, 60)),
    )
    return OperatorGraph("g", operators), SyntheticCostModel(constants, works)


@given(
    problems(),
    st.sampled_from(EndingRule),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
)
def test_lazy_is_exhaustive(one_block, problem, rule, r, s, native):
    limits = {"max_group_size": r, "max_num_groups": s}
    lazy, all_of_them = _both_ways(*problem, one_block, endings=rule, native=native, **limits)
    assert lazy <= all_of_them


class _Watched:
    """A cost model that remembers what it was asked and may offer bounds."""

    def __init__(self, model):
        self.model = model
        self.batches = []

    def price(self, graph, stages):
        self.batches.append(tuple(stages))
        return self.model.price(graph, stages)


class _Bounded(_Watched):
    def lower_bound(self, graph, stages):
        return [price * 9 // 10 for price in self.model.price(graph, stages)]


def test_each_stage_is_asked_for_once_singles_first(golden):
    recorded = golden["inception_v3"][1].parts[10]
    watched = _Watched(recorded.cost_model)
    found = search_ios(recorded.graph, watched)
    asked = [stage for batch in watched.batches for stage in batch]
    assert len(asked) == len(set(asked)) == found.priced
    assert [stage.groups for stage in watched.batches[0]] == [((i,),) for i in range(11)]
    assert set(found.schedule.stages) <= set(asked)


def test_bounds_of_the_cost_model_are_used(golden, one_block):
    recorded = golden["inception_v3"][1].parts[5]
    plain, bounded = _Watched(recorded.cost_model), _Bounded(recorded.cost_model)
    first = search_ios(recorded.graph, plain, partition=one_block(recorded.graph))
    second = search_ios(recorded.graph, bounded, partition=one_block(recorded.graph))
    assert second.latency_ns == first.latency_ns
    assert second.priced < first.priced


class _CheapMerges:
    """A cost model in which a merge gains a hundredth of its members, and knows it."""

    def price(self, graph, stages):
        del graph
        return [len(s.operators) * 1000 - (10 if s.is_merge else 0) for s in stages]

    def lower_bound(self, graph, stages):
        return self.price(graph, stages)


def test_merges_that_can_gain_too_little_are_not_priced(golden, one_block):
    recorded = golden["inception_v3"][1].parts[5]
    whole = one_block(recorded.graph)
    sought = [
        search_ios(
            recorded.graph,
            _CheapMerges(),
            SearchOptions(strategies=frozenset({Strategy.MERGE}), least_gain_percent=percent),
            partition=whole,
        )
        for percent in (0.0, 50.0)
    ]
    assert [any(s.is_merge for s in each.schedule.stages) for each in sought] == [True, False]
    assert sought[1].priced == len(recorded.graph)


class _TooHigh(_Watched):
    """Bounds of noisy prices: they come out two per cent above what they bound."""

    def lower_bound(self, graph, stages):
        return [price * 102 // 100 for price in self.model.price(graph, stages)]


@pytest.mark.parametrize("native", [False, True])
def test_bounds_that_are_too_high_by_less_than_the_margin_lose_nothing(golden, one_block, native):
    recorded = golden["inception_v3"][1].parts[5]
    whole = one_block(recorded.graph)
    exact = search_ios(recorded.graph, recorded.cost_model, lazy=False, partition=whole)
    options = SearchOptions(native=native, bound_margin_percent=3)
    bounded = _TooHigh(recorded.cost_model)
    careful = search_ios(recorded.graph, bounded, options, partition=whole)
    assert careful.latency_ns == exact.latency_ns
    assert careful.priced < exact.priced


class _Noisy:
    """Prices off by up to five per cent, the same for the same stage."""

    def __init__(self, model, seed):
        self.model = model
        self.seed = seed

    def price(self, graph, stages):
        return [
            price * random.Random(f"{self.seed} {stage}").randint(950, 1050) // 1000
            for price, stage in zip(self.model.price(graph, stages), stages, strict=True)
        ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("native", [False, True])
def test_noise_costs_no_more_than_the_noise(golden, one_block, seed, native):
    recorded = golden["inception_v3"][1].parts[10]
    noisy = _Noisy(recorded.cost_model, seed)
    whole = one_block(recorded.graph)
    options = SearchOptions(native=native)
    exact = search_ios(recorded.graph, noisy, options, lazy=False, partition=whole)
    lazy = search_ios(recorded.graph, noisy, options, partition=whole)
    careful = search_ios(
        recorded.graph,
        noisy,
        SearchOptions(native=native, bound_margin_percent=10),
        partition=whole,
    )
    assert exact.latency_ns <= lazy.latency_ns <= exact.latency_ns * 1050 // 950 + 1
    assert careful.latency_ns == exact.latency_ns
    assert lazy.priced <= careful.priced < exact.priced


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("asked", [0, 1, 3, 10, 40, 1000])
def test_a_budget_gives_the_best_of_what_is_priced(golden, one_block, asked, native):
    recorded = golden["inception_v3"][1].parts[10]
    questions = iter(range(asked))
    watched = _Watched(recorded.cost_model)
    found = search_ios(
        recorded.graph,
        watched,
        SearchOptions(centred_merges=True, native=native),
        should_stop=lambda: next(questions, None) is None,
        partition=one_block(recorded.graph),
    )
    priced = {stage for batch in watched.batches for stage in batch}
    assert set(found.schedule.stages) <= priced
    assert 189597 <= found.latency_ns <= found.sequential_ns == 377511
    assert sum(recorded.cost_model.price(recorded.graph, found.schedule.stages)) == found.latency_ns
    if asked == 0:
        assert found.latency_ns == found.sequential_ns
    stopped = any("stopped early: 1 of 1 blocks" in note for note in found.notes)
    assert stopped == (asked < 1000)
    assert asked < 1000 or found.latency_ns == 189597


class _Predicting(_Watched):
    """Predictions that are so many times the price."""

    def __init__(self, model, factor=1.0):
        super().__init__(model)
        self.factor = factor

    def predicted(self, graph, stages):
        return [round(price * self.factor) for price in self.model.price(graph, stages)]


def _predicted_search(model, graph, one_block, **options):
    options = SearchOptions(centred_merges=True, predict_stages=True, **options)
    return search_ios(graph, model, options, partition=one_block(graph))


@given(problems(), st.sampled_from(EndingRule), st.integers(0, 3), st.booleans())
def test_exact_predictions_find_the_optimum(one_block, problem, rule, r, native):
    graph, model = problem
    options = {"endings": rule, "max_group_size": r, "native": native}
    exact = search_ios(
        graph, model, SearchOptions(**options), lazy=False, partition=one_block(graph)
    )
    watched = _Predicting(model)
    found = _predicted_search(watched, graph, one_block, **options)
    assert found.latency_ns == exact.latency_ns
    assert found.priced <= exact.priced
    assert set(found.schedule.stages) <= {stage for batch in watched.batches for stage in batch}


@given(problems(), st.integers(0, 2**32), st.booleans())
def test_predictions_that_are_off_lose_no_more_than_they_are_off(one_block, problem, seed, native):
    graph, model = problem
    noisy = _Noisy(model, seed)

    class Predicted(_Watched):
        def predicted(self, graph, stages):
            return model.price(graph, stages)

    exact = search_ios(graph, noisy, lazy=False, partition=one_block(graph))
    found = _predicted_search(Predicted(noisy), graph, one_block, native=native)
    # Prices lie within 0.95 and 1.05 of the predictions, and so do the factors that are learned.
    assert exact.latency_ns <= found.latency_ns
    assert found.latency_ns * 950 <= exact.latency_ns * 1050 + 2000 * len(graph)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 1.05])
@pytest.mark.parametrize("native", [False, True])
def test_predictions_are_corrected_by_the_prices_taken_so_far(golden, one_block, factor, native):
    recorded = golden["inception_v3"][1].parts[10]
    plain = search_ios(
        recorded.graph, recorded.cost_model, lazy=False, partition=one_block(recorded.graph)
    )
    model = _Predicting(recorded.cost_model, factor)
    found = _predicted_search(model, recorded.graph, one_block, native=native)
    assert plain.latency_ns <= found.latency_ns <= 1.02 * plain.latency_ns
    assert 5 * found.priced < plain.priced


def test_what_promises_too_little_is_not_priced(golden, one_block):
    recorded = golden["inception_v3"][1].parts[10]
    model = _Predicting(_Noisy(recorded.cost_model, 1), 0.98)
    whole = _predicted_search(model, recorded.graph, one_block)
    little = _predicted_search(model, recorded.graph, one_block, least_gain_percent=20.0)
    assert little.priced < whole.priced
    assert little.latency_ns <= whole.latency_ns + 0.02 * whole.sequential_ns


@pytest.mark.slow(1)
def test_prices_that_shorten_nothing_come_to_an_end(golden, one_block, monkeypatch):
    recorded = golden["randwire"][1].parts[3]
    model = _Noisy(recorded.cost_model, 0)

    class Predicted(_Watched):
        def predicted(self, graph, stages):
            return [price * 93 // 100 for price in recorded.cost_model.price(graph, stages)]

    found = _predicted_search(Predicted(model), recorded.graph, one_block, max_group_size=2)
    monkeypatch.setattr(lazy, "PATIENCE", 10**9)
    patient = _predicted_search(Predicted(model), recorded.graph, one_block, max_group_size=2)
    assert found.priced < patient.priced
    assert found.latency_ns <= 1.02 * patient.latency_ns


@pytest.mark.slow
@pytest.mark.parametrize("native", [False, True])
def test_a_hurried_search_looks_at_every_block_before_it_is_stopped(golden, native):
    recorded = golden["randwire"][1].parts[4]
    places = range(len(recorded.graph))
    middle = len(places) // 2
    halves = Partition(
        blocks=tuple(
            ScheduleBlock(operators=tuple(half)) for half in (places[:middle], places[middle:])
        )
    )

    def found(asked, *, hurried):
        questions = iter(range(asked))
        return search_ios(
            recorded.graph,
            _Predicting(recorded.cost_model),
            SearchOptions(native=native, max_group_size=2),
            should_stop=lambda: next(questions, None) is None,
            hurried=hurried,
            partition=halves,
        )

    exact, careful = found(10**6, hurried=False), found(10**6, hurried=True)
    assert careful.latency_ns == exact.latency_ns
    assert not exact.notes
    assert not careful.notes
    stopped, hurried = found(40, hurried=False), found(40, hurried=True)
    assert stopped.blocks[1].latency_ns > 1.5 * exact.blocks[1].latency_ns
    assert hurried.latency_ns <= 1.05 * exact.latency_ns
    assert hurried.priced < exact.priced
    assert len(recorded.graph) < careful.priced <= careful.distinct_stages
    assert all(each.priced <= each.distinct_stages for each in careful.blocks)
    assert "stopped early: 2 of 2 blocks" in "".join(hurried.notes)


def test_a_hurried_search_without_choices_is_not_called_stopped(golden):
    recorded = golden["randwire"][1].parts[3]
    found = search_ios(
        recorded.graph,
        recorded.cost_model,
        SearchOptions(list_only=True),
        should_stop=lambda: True,
        hurried=True,
    )
    assert found.latency_ns == found.sequential_ns
    assert not [note for note in found.notes if "stopped early" in note]


class WholesPay:
    """Merging costs as much as the longest member and a bit, but less where all can be merged.

    The last operator is no convolution; side by side, operators cost little more than the longest.
    """

    def __init__(self, costs, bonus):
        self.costs, self.bonus = costs, bonus

    def price(self, _graph, stages):
        return [self._price(stage) for stage in stages]

    def floors(self, _graph, stages, prices):
        return [
            max(0, price - self.bonus * (not self._is_whole(stage)))
            for stage, price in zip(stages, prices, strict=True)
        ]

    def _price(self, stage):
        members = [self.costs[index] for index in stage.operators]
        if stage.strategy is Strategy.CONCURRENT:
            return max(members) + 3 * len(members)
        return max(members) + 4 * len(members) - self.bonus * self._is_whole(stage)

    def _is_whole(self, stage):
        return stage.strategy is Strategy.MERGE and len(stage.operators) == len(self.costs) - 1


@pytest.mark.slow(1)
@given(costs=st.lists(st.integers(30, 60), min_size=3, max_size=6), bonus=st.integers(0, 30))
def test_stages_may_cost_less_than_a_part_of_them_where_the_model_says_so(costs, bonus):
    operators = [op(str(index), workload="w", convolution=CONV) for index in range(len(costs))]
    graph = OperatorGraph("convolutions", (*operators, op("last")))
    model = WholesPay([*costs, 10], bonus)
    lazy = search_ios(graph, model, SearchOptions(max_chain_size=3))
    exhaustive = search_ios(graph, model, SearchOptions(), lazy=False)
    assert lazy.latency_ns == exhaustive.latency_ns


@pytest.mark.parametrize("native", [False, True])
def test_merges_that_cost_less_than_a_member_are_found(one_block, native):
    """A member's first row, such as the sum it reads, is not in the price of a merge."""
    copy = [102400, 2048, 1]
    convolutions = [
        ([copy, [135168, 4096, 1]], 64, 1),
        ([copy, [33792, 1024, 1]], 16, 1),
        ([copy, [147968, 512, 1]], 8, 3),
        ([copy, [16896, 512, 1]], 8, 1),
    ]
    operators = [op("first")]
    for _, channels, size in convolutions:
        window = {"kernel": (size, size), "padding": (size // 2,) * 4}
        convolution = replace(
            CONV, input_shape=(32, 8, 8), out_channels=channels, epilogue="", **window
        )
        operators.append(op(f"{size}x{size} to {channels}", 0, convolution=convolution))
    operators.append(op("last", 1, 2, 3, 4))
    rows = [[[1000, 1000, 1]], *(row for row, _, _ in convolutions), [[500, 1000, 1]]]
    constants = SyntheticConstants(
        peak_per_ns=1000, saturation=1000, launch_ns=0, host_ns=0, barrier_ns=200
    )
    model = SyntheticCostModel(constants, [[PrimitiveWork(*each) for each in row] for row in rows])
    _both_ways(OperatorGraph("g", tuple(operators)), model, one_block, native=native)
