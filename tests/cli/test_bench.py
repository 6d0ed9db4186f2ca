"""The verb that measures networks: refusals before any work, and the table from stored records."""

from __future__ import annotations

import pytest

from tvm_ios.cli.main import main
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.report.records import BenchmarkRecord, NamedValue

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
        machine=(NamedValue("processor", "none"),),
        versions=(NamedValue("tvm-ios", "0"),),
        taken_at="2026-01-01T00:00:00+00:00",
        comparison=Comparison(names=NAMES, rounds=rounds, confidence=0.95, notes=()),
        facts=(NamedValue("kept", "IOS-both"),),
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


def test_a_table_without_markers_is_left_alone(records, tmp_path, capsys):
    table = tmp_path / "README.md"
    table.write_text("nothing to see\n")
    assert bench("--only-table", "--output", records, "--table", table) == 2
    assert "results: begin" in capsys.readouterr().err
    assert table.read_text() == "nothing to see\n"


def test_a_damaged_record_is_named(records, tmp_path, capsys):
    (records / "broken.json").write_text("{}")
    assert bench("--only-table", "--output", records, "--table", tmp_path / "t.md") == 2
    assert "broken.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--networks", "resnet_9000"], "no network named 'resnet_9000'"),
        (["--lanes", "0"], "lanes is 0"),
        (["--lanes", "4096"], "cores"),
        (["--rounds", "1"], "rounds is 1"),
        (["--time-budget", "0"], "time_budget is 0"),
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
