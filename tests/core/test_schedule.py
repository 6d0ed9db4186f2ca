"""Schedules are stored, read back and printed without loss."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.json_places import places
from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.schedule import (
    SCHEDULE_VERSION,
    InterOpSchedule,
    LibraryOperators,
    Stage,
    Strategy,
)
from tvm_ios.errors import ScheduleError

SCHEDULE = InterOpSchedule(
    graph_name="net",
    graph_fingerprint="0123456789abcdef",
    operator_names=("stem", "left", "right"),
    stages=(Stage(((0,),)), Stage(((1,), (2,)), Strategy.MERGE)),
    scheduler="ios",
    latency_ns=1_234_500,
    operator_ns=(10, 20, 30),
    unsplit=(0, 2),
)

COUNTS = st.integers(0, 10**12)


def _by(*rows):
    names = ("cudnn", "other")
    return tuple(LibraryOperators(name, tuple(row)) for name, row in zip(names, rows, strict=True))


@st.composite
def schedules(draw):
    names = draw(st.lists(st.text(min_size=1), unique=True, max_size=8))
    members = st.lists(st.integers(0, max(0, len(names) - 1)), min_size=1).map(tuple)
    groups = st.lists(members, min_size=1).map(tuple)
    return InterOpSchedule(
        graph_name=draw(st.text()),
        graph_fingerprint=draw(st.text()),
        operator_names=tuple(names),
        # Without operators there is nothing to put into a stage.
        stages=tuple(
            draw(st.lists(st.builds(Stage, groups, st.sampled_from(Strategy)))) if names else ()
        ),
        scheduler=draw(st.text()),
        latency_ns=draw(st.none() | COUNTS),
        priced_by=draw(st.text()),
        operator_ns=tuple(draw(COUNTS) for _ in names) if draw(st.booleans()) else (),
        unsplit=tuple(index for index in range(len(names)) if draw(st.booleans())),
        libraries=draw(st.none() | st.just(()) | st.just(_by(range(len(names)), ()))),
        home_lanes=tuple(draw(COUNTS) for _ in names) if draw(st.booleans()) else (),
    )


@pytest.mark.slow
@given(schedules())
def test_json_reads_back_the_same_schedule(schedule):
    assert InterOpSchedule.from_json(schedule.to_json()) == schedule


def test_operators_of_cudnn_in_older_files_are_read():
    data = json.loads(SCHEDULE.to_json()) | {"cudnn": [0, 2]}
    read = InterOpSchedule.from_json(json.dumps(data))
    assert read == replace(SCHEDULE, libraries=(LibraryOperators("cudnn", (0, 2)),))
    assert read.by_library("cudnn") == (0, 2)
    assert read.by_library("other") == ()
    assert json.loads(read.to_json())["libraries"] == {"cudnn": [0, 2]}


def test_nothing_measured_is_nothing_stored():
    data = json.loads(SCHEDULE.to_json())
    del data["operator_ns"], data["unsplit"]
    read = InterOpSchedule.from_json(json.dumps(data))
    assert read == replace(SCHEDULE, operator_ns=(), unsplit=())


def test_values_in_bfloat16_come_back_and_are_told():
    low = replace(SCHEDULE, low=LowPrecision(results=(0,), weights=(0, 1)))
    assert InterOpSchedule.from_json(low.to_json()) == low
    assert json.loads(low.to_json())["bfloat16"] == {"results": [0], "weights": [0, 1]}
    assert "operators, 2 of them in bfloat16, in" in low.as_text()
    wrong = json.loads(low.to_json()) | {"bfloat16": {"results": [99], "weights": []}}
    with pytest.raises(ScheduleError, match="99"):
        InterOpSchedule.from_json(json.dumps(wrong))


def test_another_version_is_refused():
    data = json.loads(SCHEDULE.to_json()) | {"version": SCHEDULE_VERSION + 1}
    with pytest.raises(ScheduleError, match=f"version {SCHEDULE_VERSION + 1}.*search again"):
        InterOpSchedule.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        {"stages": None},
        {"stages": [{"groups": [[0]]}]},
        {"stages": [{"strategy": "parallel", "groups": [[0]]}]},
        {"stages": [{"strategy": "merge", "groups": [["x"]]}]},
        {"operators": 3},
        {"operator_ns": ["soon"]},
        {"operator_ns": [math.inf, 1, 2]},
        {"operator_ns": [-1, 1, 2]},
        {"operator_ns": None},
        {"unsplit": 7},
        {"unsplit": "01"},
        {"unsplit": [3]},
        {"unsplit": [True]},
        {"libraries": {"cudnn": [0.5]}},
        {"libraries": {"cudnn": [3]}},
        {"libraries": {"cudnn": None}},
        {"libraries": [0]},
        {"libraries": None},
        {"cudnn": [0.5]},
        {"cudnn": [3]},
        {"cudnn": None},
        {"latency_ns": "fast"},
        {"latency_ns": math.nan},
        {"latency_ns": 1.5},
        {"latency_ns": -1},
        {"version": True},
        {"version": "1"},
        {"version": 1.0},
        {"stages": [{"strategy": "concurrent", "groups": [[0.9]]}]},
        {"stages": [{"strategy": "concurrent", "groups": [[True]]}]},
        {"stages": [{"strategy": "concurrent", "groups": [["0"]]}]},
        {"stages": [{"strategy": "concurrent", "groups": ["01"]}]},
        {"stages": [{"strategy": "concurrent", "groups": [[-1]]}]},
        {"stages": [{"strategy": "concurrent", "groups": [[3]]}]},
        {"operators": "abc"},
        {"operators": [0, 1, 2]},
        {"graph_name": 3},
        {"graph_fingerprint": None},
        {"scheduler": ["ios"]},
        {"priced_by": 7},
    ],
    ids=json.dumps,
)
def test_garbage_in_a_field_is_refused(change):
    data = json.loads(SCHEDULE.to_json()) | change
    with pytest.raises(ScheduleError, match="not a schedule") as caught:
        InterOpSchedule.from_json(json.dumps(data))
    assert next(iter(change)) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"home_lane": [0, 1, 1]},
            "the schedule has the unknown field 'home_lane'; known.*home_la",
        ),
        (
            {"stages": [{"strategy": "merge", "groups": [[0]], "lane": 1}]},
            r"stages\[0\] has the unknown field 'lane'; known are strategy, groups",
        ),
    ],
)
def test_unknown_fields_are_refused_by_name(change, message):
    data = json.loads(SCHEDULE.to_json()) | change
    with pytest.raises(ScheduleError, match=f"not a schedule: {message}"):
        InterOpSchedule.from_json(json.dumps(data))


STORED = json.loads(
    replace(
        SCHEDULE, priced_by="a model", libraries=_by((1,), (2,)), home_lanes=(0, 1, 1)
    ).to_json()
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@pytest.mark.slow(1)
@given(st.sampled_from(list(places(STORED))), JSON_VALUES, st.booleans())
def test_any_one_change_is_read_back_equal_or_refused_in_one_line(path, value, remove):
    data = copy.deepcopy(STORED)
    target = data
    for key in path[:-1]:
        target = target[key]
    if remove:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    try:
        schedule = InterOpSchedule.from_json(json.dumps(data))
    except ScheduleError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most changes are refused, some are not
        return
    assert schedule.as_text()
    assert InterOpSchedule.from_json(schedule.to_json()) == schedule
    stored = json.loads(schedule.to_json())
    assert {name: stored.get(name) for name in data if name in STORED} == {
        name: data[name] for name in data if name in STORED
    }


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "\x00", "[" * 100_000])
def test_garbage_is_refused(text):
    with pytest.raises(ScheduleError, match="not a schedule"):
        InterOpSchedule.from_json(text)


def test_text_names_stages_and_groups():
    assert SCHEDULE.as_text() == (
        "schedule ios of net: 3 operators in 2 stages, predicted 1.2345 ms\n"
        "  stage 0 concurrent: stem\n"
        "  stage 1 merge: left | right"
    )


def test_text_of_a_list_has_its_lanes():
    listed = replace(SCHEDULE, scheduler="list", home_lanes=(0, 1, 1))
    assert listed.num_home_lanes == 2
    assert listed.as_text() == (
        "schedule list of net: 3 operators in 2 stages on 2 lanes, predicted 1.2345 ms\n"
        "  stage 0 concurrent on lane 0: stem\n"
        "  stage 1 merge on lane 1: left | right"
    )


def test_lanes_of_some_operators_are_refused():
    data = json.loads(SCHEDULE.to_json()) | {"home_lanes": [0, 1]}
    with pytest.raises(ScheduleError, match="home_lanes has 2 entries for 3 operators"):
        InterOpSchedule.from_json(json.dumps(data))


def test_text_says_whose_prediction_it_is():
    text = replace(SCHEDULE, priced_by="model of a GPU").as_text()
    assert text.splitlines()[0].endswith(", predicted 1.2345 ms by the model of a GPU")


def test_a_stage_lists_its_operators_ascending():
    assert Stage(((4, 7), (1,))).operators == (1, 4, 7)


def test_another_graph_is_refused():
    graph = OperatorGraph("g", (op("a"),))
    replace(SCHEDULE, graph_fingerprint=graph.fingerprint()).require_graph(graph)
    with pytest.raises(ScheduleError, match="'net'.*does not fit graph 'g'.*search again"):
        SCHEDULE.require_graph(graph)


def test_a_merge_is_of_several_operators():
    assert Stage(((1,), (2,)), Strategy.MERGE).is_merge
    assert not Stage(((1,),), Strategy.MERGE).is_merge
    assert not Stage(((1,), (2,))).is_merge


def test_the_form_of_its_model_is_read_back():
    form = ImageForm(written=(1,), layouts=(BLOCKS, CHANNELS_LAST))
    schedule = replace(SCHEDULE, form=form)
    assert InterOpSchedule.from_json(schedule.to_json()).form == form
    with pytest.raises(ScheduleError, match=r"form has layouts \['NHCW', 'NHWC'\]; expected NCHW"):
        InterOpSchedule.from_json(schedule.to_json().replace("NCHW", "NHCW"))


def test_values_in_bfloat16_are_read_back():
    low = LowPrecision(results=(0,), weights=(0, 1))
    text = replace(SCHEDULE, low=low).to_json()
    assert InterOpSchedule.from_json(text).low == low
    assert InterOpSchedule.from_json(SCHEDULE.to_json()).low is None
    assert "bfloat16" not in SCHEDULE.to_json()
    beyond = replace(SCHEDULE, low=replace(low, weights=(99,))).to_json()
    with pytest.raises(ScheduleError, match=r"bfloat16\.weights.* 99"):
        InterOpSchedule.from_json(beyond)
    with pytest.raises(ScheduleError, match="bfloat16.*kept"):
        InterOpSchedule.from_json(text.replace('"results"', '"kept"'))
