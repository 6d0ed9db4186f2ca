from __future__ import annotations

import dataclasses
import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.profile_key import ProfileContext, stage_profile_key
from tvm_ios.errors import CostError, OptionError


def graph_of(rows: list[tuple[str, tuple[int, ...]]], prefix: str = "op") -> OperatorGraph:
    return OperatorGraph(
        prefix,
        tuple(
            op(f"{prefix}{index}", *sorted(reads), workload=workload)
            for index, (workload, reads) in enumerate(rows)
        ),
    )


@st.composite
def graph_and_stage(draw: st.DrawFn) -> tuple[OperatorGraph, Stage]:
    """A few outside producers and independent groups that are small chains with skips."""
    outside = draw(st.integers(1, 4))
    rows: list[tuple[str, tuple[int, ...]]] = [("outside", ()) for _ in range(outside)]
    groups = []
    for _ in range(draw(st.integers(1, 5))):
        group: list[int] = []
        for _ in range(draw(st.integers(1, 3))):
            choices = [*range(outside), *group]
            reads = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True))
            rows.append((draw(st.sampled_from(["a", "b"])), tuple(reads)))
            group.append(len(rows) - 1)
        groups.append(tuple(group))
    strategy = draw(st.sampled_from(list(Strategy)))
    return graph_of(rows), Stage(tuple(groups), strategy)


def embedded(
    graph: OperatorGraph, stage: Stage, noise: random.Random
) -> tuple[OperatorGraph, Stage]:
    """The same stage in another network: other names, indices, producers, group order."""
    members = set(stage.operators)
    place: dict[int, int] = {}
    rows: list[tuple[str, tuple[int, ...]]] = []
    ready = list(range(len(graph)))
    while ready:
        free = [i for i in ready if all(p in place for p in graph.operators[i].predecessors)]
        index = noise.choice(free)
        ready.remove(index)
        for _ in range(noise.randrange(2)):
            rows.append(("stranger", tuple(range(len(rows)))[:2]))
        operator = graph.operators[index]
        reads = tuple(place[p] for p in operator.predecessors)
        place[index] = len(rows)
        rows.append((operator.workload if index in members else f"w{noise.random()}", reads))
    groups = [tuple(place[i] for i in group) for group in stage.groups]
    noise.shuffle(groups)
    return graph_of(rows, "other"), Stage(tuple(groups), stage.strategy)


@pytest.mark.slow(1)
@given(graph_and_stage(), st.randoms(use_true_random=False))
def test_equal_cells_of_different_networks_have_equal_keys(
    cell: tuple[OperatorGraph, Stage], noise: random.Random
) -> None:
    graph, stage = cell
    assert stage_profile_key(*embedded(graph, stage, noise)) == stage_profile_key(graph, stage)


@pytest.mark.slow(1)
@given(graph_and_stage(), st.data())
def test_any_other_workload_gives_another_key(
    cell: tuple[OperatorGraph, Stage], data: st.DataObject
) -> None:
    graph, stage = cell
    index = data.draw(st.sampled_from(stage.operators))
    operators = list(graph.operators)
    operators[index] = dataclasses.replace(operators[index], workload="changed")
    changed = OperatorGraph("changed", tuple(operators))
    assert stage_profile_key(changed, stage) != stage_profile_key(graph, stage)


def signature(graph: OperatorGraph, stage: Stage) -> object:
    """All the key must see, with groups tried in every order: the slow and exact reference."""
    members = set(stage.operators)
    forms = []
    for groups in itertools.permutations(stage.groups):
        slots = {i: (g, p) for g, group in enumerate(groups) for p, i in enumerate(group)}
        tensors: dict[int, list[tuple[int, int]]] = {}
        local = []
        for i, slot in sorted(slots.items(), key=lambda item: item[1]):
            reads = graph.operators[i].predecessors
            inner = sorted(slots[p] for p in reads if p in members)
            local.append((slot, graph.operators[i].workload, tuple(inner)))
            for p in reads:
                if p not in members:
                    tensors.setdefault(p, []).append(slot)
        forms.append((tuple(local), tuple(sorted(tuple(sorted(t)) for t in tensors.values()))))
    return stage.strategy.value, min(forms)


@pytest.mark.slow(1)
@given(graph_and_stage(), graph_and_stage())
def test_keys_are_equal_exactly_where_the_stages_are(
    one: tuple[OperatorGraph, Stage], other: tuple[OperatorGraph, Stage]
) -> None:
    same = signature(*one) == signature(*other)
    assert (stage_profile_key(*one) == stage_profile_key(*other)) == same


def test_sharing_an_input_counts() -> None:
    graph = graph_of([("x", ()), ("x", ()), ("a", (0,)), ("a", (0,)), ("a", (1,))])
    shared = stage_profile_key(graph, Stage(((2,), (3,))))
    apart = stage_profile_key(graph, Stage(((2,), (4,))))
    assert shared != apart


def test_sharing_within_a_group_differs_from_sharing_across() -> None:
    rows = [("x", ()), ("x", ())]
    within = [*rows, ("a", (0,)), ("b", (0,)), ("a", (1,)), ("b", (1,))]
    across = [*rows, ("a", (0,)), ("b", (1,)), ("a", (1,)), ("b", (0,))]
    stage = Stage(((2, 3), (4, 5)))
    assert stage_profile_key(graph_of(within), stage) != stage_profile_key(graph_of(across), stage)


def test_grouping_order_and_strategy_count() -> None:
    graph = graph_of([("a", ()), ("b", ())])
    keys = {
        stage_profile_key(graph, stage)
        for stage in (
            Stage(((0,), (1,))),
            Stage(((0, 1),)),
            Stage(((1, 0),)),
            Stage(((0,), (1,)), Strategy.MERGE),
        )
    }
    assert len(keys) == 4


def test_a_network_input_is_known_by_its_operand() -> None:
    def pair(*operands: str) -> OperatorGraph:
        return OperatorGraph(
            "pair",
            tuple(
                op(str(index), workload="a", convolution=replace(CONV, operand=operand))
                for index, operand in enumerate(operands)
            ),
        )

    stage = Stage(((0,), (1,)))
    same = stage_profile_key(pair("data", "data"), stage)
    assert same == stage_profile_key(pair("image", "image"), stage)
    assert same != stage_profile_key(pair("data", "image"), stage)


@pytest.mark.parametrize(
    ("groups", "where"), [(((0,), (1,)), "in another group"), (((1, 0),), "later in its group")]
)
def test_a_stage_out_of_order_is_refused(groups: tuple[tuple[int, ...], ...], where: str) -> None:
    graph = graph_of([("a", ()), ("b", (0,))])
    with pytest.raises(CostError, match=f"'op1' reads 'op0', which runs {where}"):
        stage_profile_key(graph, Stage(groups))


CONTEXT = ProfileContext(device="cpu", lanes=2, tvm_version="0.17.0", kernels="llvm")


@pytest.mark.parametrize(
    "change",
    [
        {"device": "gpu"},
        {"lanes": 1},
        {"tvm_version": "0.18.0"},
        {"kernels": "tuned"},
        {"executor": "2"},
        {"protocol": 99},
    ],
)
def test_every_field_of_a_context_counts(change: dict[str, object]) -> None:
    assert dataclasses.replace(CONTEXT, **change).digest() != CONTEXT.digest()  # type: ignore[arg-type]
    assert dataclasses.replace(CONTEXT).digest() == CONTEXT.digest()


def test_a_context_without_lanes_is_refused() -> None:
    with pytest.raises(OptionError, match="lanes is 0"):
        dataclasses.replace(CONTEXT, lanes=0)
