"""Measurements name their command, commit, machine, versions and time; all records alike."""

from __future__ import annotations

import json

from tvm_ios.host import processor_name
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.harness.cell_record import CellRecord
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.profiles.profile import Profile


def test_a_measurement_of_now_names_all_that_a_document_needs(monkeypatch):
    monkeypatch.setattr("sys.argv", ["latency.py", "--jobs", "two words"])
    taken = Measurement.here(program_command("tvm_ios_lab.jobs.latency"))
    assert taken.command == "python -m tvm_ios_lab.jobs.latency --jobs 'two words'"
    assert taken.processor == taken.machine["processor"] == processor_name()
    assert {"tvm-ios", "python"} <= set(taken.versions)
    assert taken.taken_at.endswith("+00:00")
    assert list(json.loads(json.dumps(taken.origin()))) == [
        "command",
        "machine",
        "versions",
        "taken_at",
        "commit",
    ]


def test_records_of_all_kinds_are_measurements():
    assert all(issubclass(kind, Measurement) for kind in (BenchmarkRecord, CellRecord, Profile))


def test_a_record_of_a_class_has_the_fields_that_it_is_given():
    once = CompareRound(run_ns=(1.0,), ping_pong_ns=0.0, slow=False)
    race = Comparison(names=("a",), rounds=(once,) * 6, confidence=0.95, notes=())
    record = BenchmarkRecord.here(
        "make",
        network="n",
        batch_size=1,
        target="t",
        lanes=1,
        comparison=race,
        machine={"GPU": "H"},
    )
    assert (record.machine, record.processor) == ({"GPU": "H"}, "")
    assert BenchmarkRecord.from_json(record.to_json()) == record
    # Records that were stored before name no commit.
    stored = json.loads(record.to_json())
    del stored["commit"]
    assert BenchmarkRecord.from_json(json.dumps(stored)).commit == ""
