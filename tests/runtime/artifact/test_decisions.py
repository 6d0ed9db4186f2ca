"""Decisions are stored, read back, and found again in other graphs."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from tests.json_places import places
from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.errors import ScheduleError
from tvm_ios.runtime.artifact.decisions import Decisions, Origin
from tvm_ios.search.baselines import greedy_schedule

GRAPH = OperatorGraph(
    "net",
    (
        op("conv2d_0", kind="conv2d", workload="conv2d-1", flops=8),
        op("conv2d_1", kind="conv2d", workload="conv2d-2", flops=4),
        op("add_0", 0, 1, kind="add", workload="add-3"),
    ),
)
DECISIONS = Decisions(
    schedule=replace(
        greedy_schedule(GRAPH),
        latency_ns=700,
        libraries=(LibraryOperators("onednn", (0,)),),
        form=ImageForm(layouts=(BLOCKS, CHANNELS_LAST)),
    ),
    graph=GRAPH,
    origin=Origin(
        kept="greedy",
        latency_ns=1_234_500,
        target="llvm",
        lanes=2,
        machine={"processor": "a fast one"},
        versions={"tvm": "0.17.0"},
    ),
)
STORED = json.loads(DECISIONS.to_json())


def renamed(graph):
    return OperatorGraph(
        "other", tuple(replace(each, name=f"x_{n}") for n, each in enumerate(graph.operators))
    )


def test_they_read_back():
    assert Decisions.from_json(DECISIONS.to_json()) == DECISIONS


def test_they_print_who_made_what_and_where():
    text = DECISIONS.as_text()
    assert "kept greedy; made on a fast one, lanes: 2, 1.2345 ms a run" in text
    assert "operators by maker: onednn 1, TVM's kernels 2" in text
    assert "1 with channels last, 1 in blocks of channels" in text
    assert text.endswith(DECISIONS.schedule.as_text())


def test_names_do_not_count_and_no_foreign_prediction_stays():
    other = renamed(GRAPH)
    found = DECISIONS.on(other)
    assert found.stages == DECISIONS.schedule.stages
    assert found.graph_name == "other"
    assert found.latency_ns is None


def test_a_schedule_alone_fits_its_own_graph_only():
    alone = Decisions.from_json(DECISIONS.schedule.to_json())
    assert alone.schedule == DECISIONS.schedule
    assert alone.as_text() == DECISIONS.schedule.as_text()
    assert alone.on(GRAPH) is not None
    wider = replace(GRAPH.operators[0], workload="conv2d-9")
    assert alone.on(OperatorGraph("net", (wider, *GRAPH.operators[1:]))) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no decisions: the file is no JSON"),
        ("[]", "no decisions: the file is "),
        (json.dumps(STORED | {"decisions": 7}), "version 7, this tvm-ios reads version 1"),
        (json.dumps(STORED | {"more": 1}), "unknown field 'more'"),
        (json.dumps({"decisions": 1}), "lacks the field 'schedule'"),
    ],
)
def test_what_is_not_decisions_is_refused(text, message):
    with pytest.raises(ScheduleError, match=message):
        Decisions.from_json(text)


def test_damage_anywhere_is_a_schedule_error_or_harmless():
    for path in places(STORED):
        for value in (None, -1, "x", [], {}):
            damaged = copy.deepcopy(STORED)
            place = damaged
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            try:
                Decisions.from_json(json.dumps(damaged))
            except ScheduleError as error:
                assert "\n" not in str(error)  # noqa: PT017 - most damage is refused, not all
