"""Tuning for a report races stock TVM too, where the budget has room for it."""

from __future__ import annotations

import pytest

from tests.driver.test_tune import QUICK, TARGET
from tvm_ios.driver.races.beside_stock import tune_beside_stock
from tvm_ios.report.contestants import STOCK_ALL, STOCK_ONE
from tvm_ios.support.progress import Progress


@pytest.mark.slow
def test_stock_tvm_is_raced_where_there_is_time(fork, tmp_path) -> None:
    phases: list[str] = []

    def listen(step: Progress) -> None:
        phases.append(step.phase)

    given = {"options": QUICK, "lanes": 1, "database": tmp_path / "p.sqlite", "progress": listen}
    model = tune_beside_stock(*fork, TARGET, **given)
    report = model.report()
    stock = report.evidence.stock
    assert stock is not None
    assert {STOCK_ONE, STOCK_ALL, "sequential", report.kept.value} == set(stock.names)
    assert phases[-1] == "stock TVM"
    assert model.story().evidence == report.evidence  # which a file takes along
    assert "TVM, all threads" in report.to_html()
    late = tune_beside_stock(*fork, TARGET, **given, time_budget=0.1)
    assert late.report().evidence.stock is None
