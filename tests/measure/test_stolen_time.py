from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_ios.measure.stolen_time import stolen_ns


def test_ticks_of_all_cores_are_nanoseconds_of_the_average_one(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  83034 0 22408 143100 412 0 108 49 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    ticks_ns = 49 * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert stolen_ns(stat) == ticks_ns // (os.cpu_count() or 1)


@pytest.mark.parametrize("text", [None, "", "cpu 1 2 3\n", "cpu a b c d e f g h i\n"])
def test_a_linux_that_does_not_tell_has_stolen_nothing(tmp_path: Path, text: str | None) -> None:
    stat = tmp_path / "stat"
    if text is not None:
        stat.write_text(text)
    assert stolen_ns(stat) == 0


def test_it_never_shrinks_here() -> None:
    assert 0 <= stolen_ns() <= stolen_ns()
