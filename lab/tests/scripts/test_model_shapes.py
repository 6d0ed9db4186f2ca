"""A file of several shapes against a file for each, shape by shape."""

from __future__ import annotations

import json
from functools import partial

import pytest

import tvm_ios
from tests.onnx_models import write_two_ways
from tvm_ios_lab.scripts import model_shapes

HASTY = tvm_ios.TuneOptions(
    build=tvm_ios.BuildOptions(libraries=()),
    compare=tvm_ios.CompareOptions(rounds=6, min_repeat_ms=0.1),
)


def test_the_file_for_each_is_compared():
    assert model_shapes.summary([[4_000_000, 6_000_000], [5_000_000, 5_000_000]] * 50) == (
        "together 4.500 ms, alone 5.500 ms, 1.500 (1.000 to 1.500) times as fast"
    )


@pytest.mark.slow(20)
def test_a_model_is_raced_in_each_shape(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(model_shapes, "ROUNDS", 5)
    monkeypatch.setattr(tvm_ios, "tune_shapes", partial(tvm_ios.tune_shapes, options=HASTY))
    shapes = ["--shapes", "x:[1,8,6,6]", "--shapes", "x:[2,8,6,6]"]
    model_shapes.main(["--output", str(tmp_path), *shapes, str(write_two_ways(tmp_path))])
    assert "x:[2,8,6,6]: together " in capsys.readouterr().out
    stored = json.loads((tmp_path / "two.ways.json").read_text())
    assert {name: len(rounds) for name, rounds in stored["rounds_ns"].items()} == {
        "x:[1,8,6,6]": 5,
        "x:[2,8,6,6]": 5,
    }
    assert stored["memory_kb"]["together"] > 0
