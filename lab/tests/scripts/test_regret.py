"""Regret of several calls, from a race of their files; the burner is a real one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.scripts.regret import burner, regret_rows, regrets

NAMES = ("net.idle.0", "net.idle.1", "net.burner.0")
ROUND = CompareRound(run_ns=(1.0e6, 1.1e6, 1.5e6), ping_pong_ns=50.0, slow=False)
RACE = Comparison(names=NAMES, rounds=(ROUND,) * 8, confidence=0.95, notes=())


def test_regret_is_over_the_fastest_of_all_files() -> None:
    assert regrets(RACE) == pytest.approx({NAMES[0]: 0, NAMES[1]: 0.1, NAMES[2]: 0.5})


def test_a_row_for_each_state_of_the_machine() -> None:
    kept = {NAMES[0]: "ios", NAMES[1]: "greedy", NAMES[2]: "ios"}
    calls = {name: {"kept": kept[name], "outcome": "faster", "seconds": 10.0} for name in NAMES}
    assert regret_rows("net", RACE, calls) == [
        ("net", "idle", "2", "10.0", "5.0", "1 greedy, 1 ios", "2 faster", "10.0"),
        ("net", "burner", "1", "50.0", "50.0", "1 ios", "1 faster", "10.0"),
    ]


def test_the_burner_burns_while_it_is_wanted() -> None:
    def cpu_ticks(process: int) -> int:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11])

    with burner() as process:
        begin = time.monotonic()
        while cpu_ticks(process.pid) < 5:
            assert time.monotonic() - begin < 60
            time.sleep(0.01)
    assert process.returncode is not None
