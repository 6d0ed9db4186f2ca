"""The verb that runs a compiled model: outputs, times, profile, trace; one line for mistakes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import tvm_ios
from tvm_ios.cli.main import main
from tvm_ios.runtime.artifact.identity import read_processor


def run(*words):
    return main(["run", *map(str, words)])


@pytest.fixture
def image():
    return np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype("float32")


def test_arrays_go_in_and_come_out(fork_library, image, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", data=image)
    words = ["--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out", "--print-time"]
    words += ["--repeat", 3, "--number", 2, "--warmup", 0]
    assert run(fork_library, *words) == 0
    told = capsys.readouterr().out
    assert "time of a run in ms: min " in told
    assert ", median " in told
    assert ", p99 " in told
    assert "(3 samples of 2 runs each, after 0 for warm-up)" in told
    with tvm_ios.load(fork_library) as executor, np.load(tmp_path / "out") as found:
        executor.run(data=image)
        assert found.files == ["output_0"]
        np.testing.assert_array_equal(found["output_0"], executor.get_output(0).numpy())


def test_profile_and_trace_have_every_launch(fork_library, tmp_path, capsys):
    trace = tmp_path / "t.json"
    assert run(fork_library, "--profile", "--trace", trace, "--fill-mode", "ones") == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["operator", "stage", "lane", "time"]
    with tvm_ios.load(fork_library) as executor:
        launches = {launch.operator for launch in executor.plan.launches}
    assert {row.split()[0] for row in rows} == launches
    assert all(row.endswith("TVM kernel") for row in rows)
    slices = [each for each in json.loads(trace.read_text())["traceEvents"] if each["ph"] == "X"]
    assert {each["name"] for each in slices} == launches


def test_json_has_times_and_profile(fork_library, capsys):
    assert run(fork_library, "--json", "--print-time", "--profile", "--repeat", 2) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outputs"]["output_0"] == {"dtype": "float32", "shape": [1, 32]}
    assert len(told["times"]["run_ms"]) == 2
    assert told["times"]["min_ms"] <= told["times"]["median_ms"] <= told["times"]["max_ms"]
    convolutions = [each for each in told["profile"] if each["gflops"]]
    assert len(convolutions) >= 2
    assert sum(each["share"] for each in told["profile"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(1)}, "there is no input 'x'; the model takes data: float32 [1, 16, 8, 8]"),
        ({}, "input 'data' is missing; the model takes data: float32 [1, 16, 8, 8]"),
        ({"data": np.zeros((1, 16), "float32")}, "input 'data' has the shape [1, 16]; the model"),
        ({"data": np.zeros((1, 16, 8, 8))}, "input 'data' is float64; the model takes data: fl"),
    ],
)
def test_unfit_inputs_are_named_with_what_the_model_takes(
    arrays, message, fork_library, tmp_path, capsys
):
    np.savez(tmp_path / "in.npz", **arrays)
    assert run(fork_library, "--inputs", tmp_path / "in.npz") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--inputs", "no.npz"], "cannot read the inputs no.npz"),
        (["--inputs", "text.npz"], "cannot read the inputs text.npz"),
        (["--outputs", "no/out.npz"], "cannot write the outputs no/out.npz"),
        (["--trace", "no/t.json"], "cannot write the trace no/t.json"),
        (["--repeat", "0"], "--repeat is 0; give a whole number of 1 or more"),
        (["--number", "0"], "--number is 0"),
        (["--warmup", "-1"], "--warmup is -1; give a whole number of 0 or more"),
    ],
)
def test_mistakes_are_one_line(words, message, fork_library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npz").write_text("hello")
    assert run(fork_library, *words) == 2
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert message in line
    assert "Traceback" not in shown.out


@pytest.mark.parametrize(
    "words", [["run"], ["compare", "copy.so", "--rounds", "8"], ["bench", "--rounds", "8"]]
)
def test_files_of_another_processor_model_are_taken_on_request(
    words, fork_library, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(fork_library, "copy.so")
    other = replace(read_processor(), model="vendor_id Other")
    monkeypatch.setattr("tvm_ios.runtime.artifact.artifact.read_processor", lambda: other)
    words.insert(1, str(fork_library))
    assert main(words) == 2
    assert "(--any-processor-model)" in capsys.readouterr().err
    assert main([*words, "--any-processor-model"]) == 0


def test_a_file_that_is_no_model_is_named(tmp_path, capsys):
    (tmp_path / "net.so").write_bytes(b"hello" * 20)
    assert run(tmp_path / "net.so") == 2
    assert "net.so: 100 bytes without a tvm-ios footer" in capsys.readouterr().err


def test_a_file_in_one_shape_has_none_to_choose(fork_library, capsys):
    assert run(fork_library, "--input-shapes", "data:[1,16,8,8]") == 2
    assert "the file has the model in one; leave it out" in capsys.readouterr().err
