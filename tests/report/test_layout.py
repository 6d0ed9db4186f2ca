from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.report.geometry import BOX_HEIGHT, BOX_WIDTH, Layout
from tvm_ios.report.layout import lay_out
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

EDGES = Path(__file__).parents[1] / "data" / "randwire_edges.json"


def random_network() -> OperatorGraph:
    edges = json.loads(EDGES.read_text())["ws-32-4-0.75-4.txt"]["edges"]
    return OperatorGraph(
        "ws-32",
        tuple(op(f"node{node}", *sorted(a for a, b in edges if b == node)) for node in range(32)),
    )


def chain(length: int) -> OperatorGraph:
    return OperatorGraph("chain", tuple(op(f"relu{i}", *range(i)[-1:]) for i in range(length)))


def grouped(graph: OperatorGraph, size: int) -> InterOpSchedule:
    groups = [tuple(range(i, min(i + size, len(graph)))) for i in range(0, len(graph), size)]
    return InterOpSchedule(
        graph_name=graph.name,
        graph_fingerprint=graph.fingerprint(),
        operator_names=tuple(operator.name for operator in graph.operators),
        stages=tuple(Stage((group,)) for group in groups),
        scheduler="chunks",
    )


def assert_sound(layout: Layout, schedule: InterOpSchedule) -> None:
    bands = {band.stage: band for band in layout.bands}
    assert sorted(bands) == list(range(len(schedule.stages)))
    for number, stage in enumerate(schedule.stages):
        band = bands[number]
        for operator in stage.operators:
            point = layout.boxes[operator]
            assert band.left < point.x - BOX_WIDTH / 2
            assert point.x + BOX_WIDTH / 2 < band.left + band.width
            assert band.top < point.y - BOX_HEIGHT / 2
            assert point.y + BOX_HEIGHT / 2 < band.top + band.height
    for one, other in combinations(layout.boxes.values(), 2):
        assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
    for band in layout.bands:
        assert band.left >= 0
        assert band.left + band.width <= layout.width + 1e-9
        assert band.top >= 0
        assert band.top + band.height <= layout.height + 1e-9
    for wire in layout.wires:
        for box in layout.boxes.values():
            through = (
                abs(wire.start.x - box.x) < BOX_WIDTH / 2 - 1e-9
                and wire.start.x == wire.end.x
                and min(wire.start.y, wire.end.y) < box.y < max(wire.start.y, wire.end.y)
            )
            assert not through


@pytest.mark.parametrize("make", [sequential_schedule, greedy_schedule])
def test_a_random_network_keeps_boxes_apart_and_inside_their_stages(make):
    graph = random_network()
    schedule = make(graph)
    assert_sound(lay_out(graph, schedule), schedule)


def test_groups_of_several_operators_are_sound(graph, schedule):
    assert_sound(lay_out(graph, schedule), schedule)
    everything = grouped(random_network(), 5)
    assert_sound(lay_out(random_network(), everything), everything)


def test_every_edge_arrives_with_an_arrow():
    graph = random_network()
    layout = lay_out(graph, sequential_schedule(graph))
    edges = sum(len(operator.predecessors) for operator in graph.operators)
    assert sum(wire.arrow for wire in layout.wires) == edges


def test_a_long_chain_wraps_into_columns_with_a_tag_at_each_end():
    graph = chain(60)
    layout = lay_out(graph, sequential_schedule(graph))
    columns = {band.left for band in layout.bands}
    assert len(columns) > 3
    assert 0.7 < layout.width / layout.height < 2.5
    assert len(layout.tags) == 2 * (len(columns) - 1)
    assert len({operator for operator, _ in layout.tags}) == len(columns) - 1


def test_a_value_read_far_below_has_a_slot_in_every_stage_between(graph, schedule):
    layout = lay_out(graph, schedule)
    for stage in (1, 2):
        band = next(band for band in layout.bands if band.stage == stage)
        assert any(
            wire.start.x == wire.end.x
            and wire.start.y == pytest.approx(band.top)
            and wire.end.y == pytest.approx(band.top + band.height)
            for wire in layout.wires
        )


def test_a_schedule_without_stages_is_an_empty_page():
    graph = OperatorGraph("nothing", ())
    layout = lay_out(graph, sequential_schedule(graph))
    assert layout.boxes == {}
    assert layout.bands == ()


def test_members_of_a_merged_stage_stand_side_by_side(graph, schedule):
    layout = lay_out(graph, schedule)
    wide, narrow = (layout.boxes[operator] for operator in schedule.stages[1].operators)
    assert wide.y == narrow.y
    between = sorted((wide.x, narrow.x))
    band = next(band for band in layout.bands if band.stage == 1)
    assert not any(
        between[0] < wire.start.x < between[1] and band.top <= wire.start.y < band.top + band.height
        for wire in layout.wires
        if wire.start.x == wire.end.x
    )


@pytest.mark.slow
def test_hundreds_of_operators_can_be_laid_out():
    graph = OperatorGraph(
        "large",
        tuple(
            op(f"relu{i}", *sorted({max(i - 1 - i % 3, 0), max(i - 5, 0)} if i else []))
            for i in range(300)
        ),
    )
    schedule = greedy_schedule(graph)
    layout = lay_out(graph, schedule)
    assert len(layout.boxes) == 300
