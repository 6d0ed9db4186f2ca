"""Numbers of a model's runs."""

from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.measure.run_times import RunTimes, percentile


def test_the_summary_of_known_times():
    times = RunTimes(run_ms=tuple(map(float, range(100, 0, -1))), number=2, warmup=3)
    assert times.summary() == {
        "min_ms": 1.0,
        "mean_ms": 50.5,
        "median_ms": 50.5,
        "p90_ms": 90.0,
        "p95_ms": 95.0,
        "p99_ms": 99.0,
        "max_ms": 100.0,
        "throughput_per_s": 1000 / 50.5,
    }
    first, second = times.as_text().splitlines()
    assert first.startswith("time of a run in ms: min 1.0000, mean 50.5000, median 50.5000, p90 9")
    assert second == "throughput 19.80 runs/s (100 samples of 2 runs each, after 3 for warm-up)"


def test_a_percentile_is_a_value_that_was_taken():
    assert [percentile([3.0, 1.0, 2.0], each) for each in (0, 33, 34, 67, 100)] == [1, 1, 2, 3, 3]


def test_no_sample_is_refused():
    with pytest.raises(OptionError, match="no sample; give repeat=1 or more"):
        RunTimes(run_ms=(), number=1, warmup=0)
