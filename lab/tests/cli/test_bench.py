"""The verb that measures networks: refusals before any work, and the table from stored records."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.onnx_models import write_two_ways
from tvm_ios.cli.main import main
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.support.stored_value import parse_json
from tvm_ios_lab.bench.records import BenchmarkRecord

NAMES = (
    "TVM, 1 thread",
    "TVM, all threads",
    "TVM on our launch path",
    "sequential",
    "greedy",
    "IOS-both",
)
TIMES_MS = (4.0, 3.0, 2.5, 2.0, 1.5, 1.0)


def record(network: str, *, slower: float = 1.0) -> BenchmarkRecord:
    rounds = tuple(
        CompareRound(
            run_ns=tuple(1e6 * slower * time + i for time in TIMES_MS),
            ping_pong_ns=50.0,
            slow=False,
        )
        for i in range(8)
    )
    return BenchmarkRecord(
        network=network,
        batch_size=1,
        target="llvm",
        lanes=2,
        command=f"tvm-ios bench --networks {network}",
        machine={"processor": "none"},
        versions={"tvm-ios": "0"},
        taken_at="2026-01-01T00:00:00+00:00",
        comparison=Comparison(names=NAMES, rounds=rounds, confidence=0.95, notes=()),
        facts={"kept": "IOS-both"},
    )


@pytest.fixture
def records(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    for number, name in enumerate(("large", "small")):
        stored = record(name, slower=2.0 - number)
        (folder / f"{name}_bs1.json").write_text(stored.to_json())
    return folder


def bench(*words):
    return main(["bench", *map(str, words)])


def test_the_table_is_written_between_its_markers(records, tmp_path, capsys):
    table = tmp_path / "README.md"
    table.write_text(
        "# Results\n<!-- results: begin -->\nold\n<!-- results: end -->\nand the rest\n"
    )
    for _ in range(2):  # the second time finds what the first one wrote
        assert bench("--only-table", "--output", records, "--table", table) == 0
        text = table.read_text()
        assert text.startswith("# Results\n<!-- results: begin -->\n|")
        assert text.endswith("<!-- results: end -->\nand the rest\n")
        assert "old" not in text
    small, large = (text.index(f"| {name}") for name in ("small", "large"))
    assert small < large  # by latency
    row = text[small:].splitlines()[0]
    assert all(value in row for value in ("3.000", "2.000", "1.500", "1.000", "IOS-both"))
    assert "Traceback" not in capsys.readouterr().err


def test_a_table_that_is_not_there_is_made(records, tmp_path):
    table = tmp_path / "new" / "table.md"
    assert bench("--only-table", "--output", records, "--table", table) == 0
    assert "| small" in table.read_text()


def test_no_records_are_named(tmp_path, capsys):
    assert bench("--only-table", "--output", tmp_path, "--table", tmp_path / "t.md") == 2
    assert f"no results in {tmp_path}" in capsys.readouterr().err


def test_the_committed_records_make_the_committed_table(project_root, tmp_path):
    committed = project_root / "lab" / "README.md"
    table = tmp_path / "README.md"
    shutil.copy(committed, table)
    output = project_root / "lab" / "results"  # with measurements of another kind
    assert bench("--only-table", "--output", output, "--table", table) == 0
    assert table.read_text() == committed.read_text()


def test_a_table_without_markers_is_left_alone(records, tmp_path, capsys):
    table = tmp_path / "README.md"
    table.write_text("nothing to see\n")
    assert bench("--only-table", "--output", records, "--table", table) == 2
    assert "results: begin" in capsys.readouterr().err
    assert table.read_text() == "nothing to see\n"


def test_a_damaged_record_is_named(records, tmp_path, capsys):
    (records / "broken_bs1.json").write_text("{}")
    assert bench("--only-table", "--output", records, "--table", tmp_path / "t.md") == 2
    assert "broken_bs1.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--networks", "resnet_9000"], "no network named 'resnet_9000'"),
        (["--lanes", "0"], "lanes is 0"),
        (["--lanes", "4096"], "cores"),
        (["--rounds", "1"], "rounds is 1"),
        (["--time-budget", "0"], "time_budget is 0"),
        (["--trials", "64"], "--trials given, but no kernels are tuned"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_any_work(words, message, tmp_path, capsys):
    output = tmp_path / "out"
    assert bench("--output", output, "--table", tmp_path / "t.md", *words) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ["--networks", "squeezenet", "--database", tmp_path / "p.sqlite"]
    assert bench(*words, "--output", tmp_path / "file" / "out", "--table", tmp_path / "t.md") == 2
    errors = capsys.readouterr().err
    assert "cannot write to" in errors
    assert "--output" in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--networks", "squeezenet", "resnet_9000"], "no network named 'resnet_9000'"),
        (["--networks", "squeezenet", "--output", "file/out"], "cannot write to file/out/tuned"),
    ],
)
def test_tuning_refuses_before_any_work(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(
        "tvm_ios_lab.bench.tuned_benchmark.evaluate_tuned", lambda *_, **__: pytest.fail("work")
    )
    assert bench("--tuning", "autotvm", "--table", "t.md", "--database", "p.sqlite", *words) == 2
    assert message in capsys.readouterr().err


# ---- Models that a user names ----


@pytest.mark.slow(1)
def test_compiled_models_are_raced_and_nothing_is_written(
    fork_library, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    others = [tmp_path / "second.so", tmp_path / "third.so"]
    for other in others:
        shutil.copy(fork_library, other)
    assert bench(fork_library, *others, "--rounds", 8) == 0
    told = capsys.readouterr().out
    assert f"ratios are over {fork_library}" in told
    assert all(f"  {path}: " in told for path in (fork_library, *others))
    assert bench(*others, "--rounds", 8, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"] == []
    assert found["compiled"]["names"] == [str(other) for other in others]
    assert len(found["compiled"]["rounds"]) >= 8
    assert sorted(tmp_path.iterdir()) == others


def test_the_race_of_compiled_models_is_written_where_output_says(fork_library, tmp_path, capsys):
    other, output = tmp_path / "other.so", tmp_path / "out"
    shutil.copy(fork_library, other)
    assert bench(fork_library, other, "--rounds", 8, "--output", output) == 0
    assert f"wrote {output / 'compiled.json'}" in capsys.readouterr().out
    race = Comparison.from_record(parse_json((output / "compiled.json").read_text(), "the race"))
    assert race.names == (str(fork_library), str(other))


def test_a_saved_run_is_a_compiled_model(fork_library, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "runs" / "20260101-000000-net-abc"
    folder.mkdir(parents=True)
    shutil.copy(fork_library, folder / "model.so")
    (folder / "run.json").write_text("{}")
    assert bench(folder.name, fork_library, "--rounds", 8) == 0
    assert f"ratios are over {folder.name}" in capsys.readouterr().out


@pytest.mark.slow(10)
def test_a_model_in_onnx_is_measured_against_stock_tvm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = write_two_ways(tmp_path, batch=2)  # there is no batch size to give
    words = ["--database", tmp_path / "p.sqlite", "--lanes", 1, "--rounds", 8, "--time-budget", 1]
    assert bench(path, *words, "--json", "--output", "out") == 0
    found = json.loads(capsys.readouterr().out)
    (model,) = found["models"]
    assert (model["network"], model["batch_size"], found["compiled"]) == ("two.ways", 2, None)
    assert set(NAMES) <= set(model["median_ns"])
    assert json.loads((tmp_path / "out" / "two.ways_bs2.json").read_text()) == model
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out", "p.sqlite", path.name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resnet_9000"], "no network named 'resnet_9000'"),
        (["no.onnx"], "cannot read no.onnx"),
        (["bad.onnx"], "bad.onnx cannot be read as ONNX"),
        (["no.so"], "no.so: cannot be read"),
        (["bad.so"], "bad.so: "),
        (["squeezenet", "bad.so"], "bad.so: "),
        (["notes.md"], "notes.md"),
        (["bad.so", "bad.so"], "bad.so: "),
        (["same.so", "./same.so"], "same.so and ./same.so are one file; give it once"),
        (["unet", "--networks", "squeezenet"], "there are MODELs and --networks"),
        (["squeezenet", "--table", "t.md"], "give --output FOLDER"),
        (["same.so", "--table", "t.md"], "all MODELs are compiled; leave it"),
        (["squeezenet", "--any-processor-model"], "of compiled models, and none is given"),
        (["unet", "--json", "--tuning", "autotvm"], "leave out --tuning and --only-table"),
        (["squeezenet", "--tuning", "autotvm"], "give them as --networks NAME"),
        (["bad.so", "--tuning", "autotvm"], "give them as --networks NAME"),
        (["bad.onnx", "--only-table"], "give them as --networks NAME"),
        (["unet", "--rounds", "0"], "rounds is 0"),
        (["two.ways.onnx"], "two.ways.onnx leaves open dimension 0 of 'x'"),
        (["two.ways.onnx", "--batch-size", "2", "--time-budget", "0"], "time_budget is 0"),
        (
            ["a/net.onnx", "b/net.onnx", "--output", "out"],
            "b/net.onnx would be one file in out",
        ),
    ],
)
def test_what_no_model_can_be_is_one_line(
    words, message, fork_library, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_two_ways(tmp_path)
    for name in ("bad.so", "bad.onnx", "notes.md"):
        (tmp_path / name).write_text("nothing of the kind")
    shutil.copy(fork_library, tmp_path / "same.so")
    before = sorted(tmp_path.iterdir())
    assert bench(*words, "--database", tmp_path / "p.sqlite") == 2
    shown = capsys.readouterr()
    (line,) = [line for line in shown.err.splitlines() if line.startswith("tvm-ios: error: ")]
    assert message in line
    assert shown.out == ""
    assert set(tmp_path.iterdir()) - {tmp_path / "p.sqlite"} == set(before)
