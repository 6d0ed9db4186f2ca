"""The tuned benchmark on a real, tiny network."""

from __future__ import annotations

import pytest

from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.tuned_kernels import TuningRequest
from tvm_ios_lab.bench.benchmark import BenchmarkSettings
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.bench.tuned_benchmark import TunedEvaluation, evaluate_tuned, record_of
from tvm_ios_lab.bench.tuned_table import tuned_table

BRIEF = CompareOptions(rounds=6, min_repeat_ms=0.5, mode=ModeOptions(patience_s=1.0))
CONTESTANTS = {f"{k} {w}" for k in ("untuned", "tuned") for w in ("sequential", "greedy", "IOS")}


@pytest.fixture(scope="module")
def found(fork, tmp_path_factory) -> TunedEvaluation:
    folder = tmp_path_factory.mktemp("tuned")
    mod, params = fork
    request = TuningRequest(
        backend="autotvm",
        records=(folder / "autotvm.log",),
        options=TuningOptions(trials=1, number=1, repeat=1, min_repeat_ms=0),
    )
    return evaluate_tuned(
        mod,
        params,
        request,
        MeasuringCall.here(
            lanes=1,  # two would wait for each other beside other tests
            database=folder / "prices.sqlite",
            compare=BRIEF,
            time_budget=5,
        ),
        name="tiny",
    )


@pytest.mark.slow(18)
def test_all_four_corners_and_stock_tvm_are_timed_together(found):
    assert set(found.comparison.names) > CONTESTANTS
    assert len(found.comparison.names) == len(CONTESTANTS) + 2
    assert found.kept("tuned").startswith("tuned")
    assert found.kept("untuned").startswith("untuned")
    assert found.tuned.outcome is not None
    assert found.tuned.outcome.as_text() in found.as_text()


@pytest.mark.slow
def test_records_are_read_as_they_were_written(found, tmp_path):
    settings = BenchmarkSettings(
        batch_size=1, lanes=2, rounds=6, time_budget=5, database=None, folder=tmp_path
    )
    record = record_of("tiny", found, settings)
    assert BenchmarkRecord.from_json(record.to_json()) == record
    ((name, *_),) = tuned_table([("autotvm", record)]).rows
    assert name == "tiny"
