"""Speeds of a lane: measured for real, kept once, and made anew where a file is damaged."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from tvm_ios.host.lane_speeds import LaneSpeeds, kept_speeds, measure_speeds

MITE = LaneSpeeds(
    flops_per_ns=100,
    memory_bytes_per_ns=10,
    shared_bytes_per_ns=20,
    cached_bytes_per_ns=50,
    cache_bytes=1000,
    hop_ns=60,
    launch_ns=5,
)


def never() -> LaneSpeeds:
    raise AssertionError("they are known")


def test_a_lane_is_measured_and_rounded():
    found = measure_speeds()
    # The slowest machine that runs TVM, and the fastest there will be: no test of its speed.
    assert 0.1 < found.flops_per_ns < 10_000
    assert 0.01 < found.memory_bytes_per_ns < 10_000
    assert 0.01 < found.cached_bytes_per_ns < 10_000
    assert found.launch_ns > 0
    for speed in (found.flops_per_ns, found.shared_bytes_per_ns, found.cached_bytes_per_ns):
        assert speed == float(f"{speed:.2g}")
    assert "GFLOP/s" in found.as_text()


def test_speeds_are_measured_once(tmp_path):
    assert kept_speeds(tmp_path, lambda: MITE) == MITE
    assert kept_speeds(tmp_path, never) == MITE
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_what_was_measured_in_the_slow_mode_is_not_kept(tmp_path):
    slow = replace(MITE, hop_ns=360)
    assert kept_speeds(tmp_path, lambda: slow) == slow
    assert kept_speeds(tmp_path, lambda: MITE) == MITE
    assert kept_speeds(tmp_path, never) == MITE


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[: len(text) // 2], "is no JSON"),
        (lambda text: text.replace('"flops_per_ns":100', '"flops_per_ns":0'), "flops_per_ns is 0"),
        (lambda text: text.replace('"hop_ns":60', '"hop":60'), "unknown field 'hop'"),
        (lambda _: json.dumps(3), "expected an object"),
        (lambda _: "\x00", "is no JSON"),
    ],
)
def test_a_damaged_file_is_told_and_made_anew(tmp_path, caplog, change, told):
    kept_speeds(tmp_path, lambda: MITE)
    (path,) = tmp_path.iterdir()
    path.write_text(change(path.read_text()))
    with caplog.at_level(logging.WARNING, "tvm_ios"):
        assert kept_speeds(tmp_path, lambda: MITE) == MITE
    assert told in caplog.text
    assert str(path) in caplog.text
    assert kept_speeds(tmp_path, never) == MITE


def test_a_folder_that_cannot_be_written_costs_only_the_keeping(tmp_path, caplog):
    missing = tmp_path / "file"
    missing.write_text("")
    assert kept_speeds(missing, lambda: MITE) == MITE
    assert "measured again next time" in caplog.text


def test_bytes_beyond_the_caches_come_from_memory():
    assert MITE.moved_ns(500) == 10
    assert MITE.moved_ns(2000) == 20 + 50
    assert MITE.moved_ns(20_000) == 20 + 750 + 400


def test_a_kernel_is_bound_by_what_takes_longest():
    assert MITE.bound_ns(10_000, 500) == 100
    assert MITE.bound_ns(500, 500) == 10
    assert MITE.bound_ns(0, 8) == 5
    assert replace(MITE, launch_ns=300).bound_ns(10_000, 500) == 300
