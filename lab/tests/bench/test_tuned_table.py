"""The table of tuned networks: a row for each back end, networks together, the fast ones first."""

from __future__ import annotations

import pytest

from tvm_ios.driver.races.stock_contestants import STOCK_ALL, STOCK_ONE
from tvm_ios.errors import ArtifactError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.bench.tuned_table import MARKERS, tuned_table, write_tuned_table


def record(network, tuned_ms, **facts):
    """Stock TVM takes 4 and 3 ms, untuned kernels 2 and 1.5, tuned ones as said."""
    run_ms = {
        STOCK_ONE: 4.0,
        STOCK_ALL: 3.0,
        "untuned sequential": 2.0,
        "untuned IOS": 1.5,
        "tuned sequential": tuned_ms + 0.125,
        "tuned IOS": tuned_ms,
    }
    facts = {"kept untuned": "untuned IOS", "kept tuned": "tuned IOS", **facts}
    run_ns = tuple(1e6 * value for value in run_ms.values())
    return BenchmarkRecord(
        network=network,
        batch_size=1,
        target="llvm",
        lanes=2,
        command="tvm-ios bench",
        machine={},
        versions={},
        taken_at="2026-01-01",
        comparison=Comparison(
            names=tuple(run_ms),
            rounds=(CompareRound(run_ns=run_ns, ping_pong_ns=50.0, slow=False),) * 6,
            confidence=0.95,
            notes=(),
        ),
        facts=facts,
    )


def rows_of(*found):
    table = tuned_table(found)
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def test_back_ends_of_a_network_stand_together_and_fast_networks_first():
    rows = rows_of(
        ("autotvm", record("large", 1.25)),
        ("autotvm", record("small", 1.0)),
        ("auto_scheduler", record("large", 1.125)),
        ("auto_scheduler", record("small", 1.5)),
    )
    assert [(row["network"], row["tuned by"]) for row in rows] == [
        ("small", "auto_scheduler"),
        ("small", "autotvm"),
        ("large", "auto_scheduler"),
        ("large", "autotvm"),
    ]


def test_latencies_and_ratios_are_those_of_the_record():
    (row,) = rows_of(("autotvm", record("small", 0.75)))
    assert (row["best TVM ms"], row["untuned IOS ms"]) == ("3.000", "1.500")
    assert (row["tuned sequential ms"], row["tuned IOS ms"]) == ("0.875", "0.750")
    assert row["kept over best TVM"].startswith("4.000 ")
    assert row["kept over untuned kept"].startswith("2.000 ")


def test_the_time_of_tuning_is_told_where_all_of_it_was_in_the_run():
    budget = {"tune s": "40.1", "candidates measured": "12"}
    whole, resumed = (
        record("small", 1.0, **budget, **{"candidates known": known}) for known in ("0", "30")
    )
    (row,) = rows_of(("autotvm", whole))
    assert (row["candidates"], row["tuning s"]) == ("12", "40.1")
    (row,) = rows_of(("autotvm", resumed))
    assert (row["candidates"], row["tuning s"]) == ("42", "-")


def test_files_are_named_after_the_back_end_and_the_table_stands_between_its_markers(tmp_path):
    for backend in ("autotvm", "auto_scheduler"):
        path = tmp_path / f"small_bs1.{backend}.json"
        path.write_text(record("small", 1.0).to_json())
    readme = tmp_path / "README.md"
    readme.write_text("before\n" + "\n".join(MARKERS) + "\nafter\n")
    write_tuned_table(tmp_path, readme)
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    rows = [line.split("|")[2].strip() for line in text.splitlines() if "| small " in line]
    assert rows == ["auto_scheduler", "autotvm"]


def test_no_records_are_no_table(tmp_path):
    with pytest.raises(ArtifactError, match="no results"):
        write_tuned_table(tmp_path, tmp_path / "README.md")
