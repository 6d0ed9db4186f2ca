"""Nouns as JSON: what is written is read back, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.jobs.runs import mock_order
from tvm_ios.driver.chain.benchmark_context import StepTime
from tvm_ios.driver.chain.service_level import ServiceLevel
from tvm_ios.jobs.core.events import Event, StageReleased, StageRequested
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.tune_work import TuneWork
from tvm_ios.support.json_nouns import Signed, from_json, noun_from, to_json
from tvm_ios.support.stage_gate import StageKind, StageNeed
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

NEED = StageNeed(kind=StageKind.BUILD, most_cores=4, task="conv2d")
ORDER = mock_order("job")
TUNED = JobOrder(spec=ORDER.spec, work=TuneWork(config={"tuning": {"trials": 3}}, lanes=2))
SPAN = Span(
    job="job",
    epoch=3,
    need=NEED,
    device="",
    asked_s=0.5,
    granted_s=1.0,
    ended_s=None,
    places=((1.0, (0, 1)), (2.5, (0,))),
)


@dataclass(frozen=True)
class Level:
    floor: Signed
    count: int


@pytest.mark.parametrize(
    ("hint", "noun"),
    [
        (Event, StageRequested("job", NEED)),
        (Event, StageReleased(job="job", epoch=2, seconds=None, finished=False)),
        (JobOrder, ORDER),
        (JobOrder, TUNED),
        (Span, SPAN),
        (Level, Level(floor=-3, count=2)),
    ],
)
def test_what_is_written_is_read_back(hint, noun):
    text = to_json(hint, noun)
    assert "\n" not in text
    assert from_json(hint, text, "it") == noun


def test_missing_fields_have_their_defaults():
    need = from_json(StageNeed, '{"kind": "search"}', "the need")
    assert need == StageNeed(kind=StageKind.SEARCH)


def test_of_a_file_no_field_may_be_missing():
    stored = parse_json('{"sla_ms": 1.0, "answers": []}', "the level")
    assert noun_from(ServiceLevel, stored) == ServiceLevel(sla_ms=1.0, answers=())
    with pytest.raises(UnreadableValueError, match="the level lacks the field 'notes'"):
        noun_from(ServiceLevel, stored, whole=True)


def test_values_of_a_mapping_are_read_by_their_hint():
    stored = parse_json('{"step": "build", "seconds": 1.0, "calls": [{"tune": "2"}]}', "the step")
    with pytest.raises(UnreadableValueError, match=r"calls\[0\].tune is '2'; expected a finite"):
        noun_from(StepTime, stored)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"StageRequested": {"job": "a"}}', r"StageRequested lacks the field 'need'"),
        ('{"StageRequested": {"job": 1, "need": {"kind": "build"}}}', "job is 1; expected text"),
        ('{"Burn": {}}', "expected an object with one of JobSubmitted"),
        ("{}", "expected an object with one of"),
        (
            '{"JobEnded": {"job": "a", "why": ""}}',
            "has the unknown field 'why'; known are job, reason",
        ),
        ("nonsense", "the event is no JSON"),
    ],
)
def test_anything_else_is_refused(text, told):
    with pytest.raises(UnreadableValueError, match=told):
        from_json(Event, text, "the event")


def test_one_of_several_classes_is_named():
    assert list(json.loads(to_json(JobOrder, TUNED))["work"]) == ["TuneWork"]


def test_only_what_is_said_to_be_signed_may_be_below_zero():
    with pytest.raises(UnreadableValueError, match=r"count is -2; expected a whole number of 0"):
        from_json(Level, '{"floor": -3, "count": -2}', "it")
