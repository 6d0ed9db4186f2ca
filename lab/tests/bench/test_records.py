from __future__ import annotations

import json

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios_lab.bench.records import BenchmarkRecord


@pytest.fixture
def record(comparison) -> BenchmarkRecord:
    return BenchmarkRecord(
        network="squeezenet",
        batch_size=1,
        target="llvm -mcpu=skylake-avx512",
        lanes=2,
        command="make bench",
        machine={"cpu": "a processor", "cores": "2"},
        versions={"tvm": "0.17"},
        taken_at="2026-11-20T00:00:00Z",
        comparison=comparison,
        notes=("tuned kernels",),
    )


def test_json_round_trip(record):
    assert BenchmarkRecord.from_json(record.to_json()) == record


def test_json_shows_medians_for_readers(record):
    medians = json.loads(record.to_json())["median_ns"]
    assert medians["stock TVM"] == pytest.approx(2_000_003.5)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 99, "has version 99"),
        ("lanes", "two", "lanes is 'two'; expected a whole number"),
        ("batch_size", True, "batch_size is True; expected a whole number"),
        ("machine", [], r"machine is \[\]; expected an object"),
        ("comparison", {}, "comparison lacks the field 'names'"),
    ],
)
def test_a_wrong_field_is_named(record, field, value, message):
    data = json.loads(record.to_json())
    data[field] = value
    with pytest.raises(ArtifactError, match=message):
        BenchmarkRecord.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"version": 1}'])
def test_something_else_is_refused(text):
    with pytest.raises(ArtifactError, match="not a benchmark record"):
        BenchmarkRecord.from_json(text)
