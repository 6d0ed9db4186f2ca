from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.report.table import Table, comparison_table

TABLE = Table(header=("network", "ms"), rows=(("squeezenet", "2.1"), ("x", "29.70")))


def test_text_aligns_names_left_and_numbers_right():
    assert TABLE.as_text().splitlines() == [
        "network        ms",
        "----------  -----",
        "squeezenet    2.1",
        "x           29.70",
    ]


def test_markdown_aligns_its_source_and_its_columns():
    assert TABLE.as_markdown().splitlines() == [
        "| network    |    ms |",
        "| ---------- | ----: |",
        "| squeezenet |   2.1 |",
        "| x          | 29.70 |",
    ]


def test_cells_are_printable():
    table = Table(header=("job", "ms"), rows=(("\x1b[2J\n", "1"), ("a", "2")))
    assert table.as_text().splitlines()[2:] == [r"\x1b[2J\n   1", "a           2"]


def test_bars_and_new_lines_stay_in_their_cell_of_markdown():
    table = Table(header=("device", "stage"), rows=(("V100", "conv1 | conv2"), ("a\nb", "-")))
    assert table.as_markdown().splitlines() == [
        "| device |          stage |",
        "| ------ | -------------: |",
        r"| V100   | conv1 \| conv2 |",
        "| a b    |              - |",
    ]
    assert "conv1 | conv2" in table.as_text()


def test_a_table_without_rows_has_a_header():
    table = Table(header=("a", "b"), rows=())
    assert table.as_markdown().splitlines() == ["| a   |   b |", "| --- | --: |"]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(OptionError, match="has 1 cells, the header .* has 2"):
        Table(header=("a", "b"), rows=(("1",),))


def test_comparison_table_has_a_row_for_each_contestant(comparison):
    table = comparison_table(comparison, baselines=["stock TVM"])
    assert table.header == ("contestant", "median ms", "times as fast as stock TVM")
    assert table.rows == (
        ("stock TVM", "2.0000", "1"),
        ("IOS", "1.0000", "2.000 (2.000-2.000)"),
        ("sequential", "2.0000", "1.000 (1.000-1.000)"),
    )
