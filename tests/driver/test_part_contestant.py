"""The contestant that has each part of a joined network as it is faster alone."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tvm_ios
from tests.driver.conftest import TARGET
from tests.driver.test_tune import QUICK
from tests.relay.frontends.test_joined import dense
from tvm_ios.driver import part_contestant
from tvm_ios.report.contestants import Contestant


@pytest.mark.slow(6)
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="lists need two lanes")
def test_parts_that_are_worth_a_list_race_as_one(tmp_path, monkeypatch):
    """Without a part that is, nothing more races; outputs do not depend on who wins."""
    models = {"a": dense(), "b": dense(units=2)}
    x = np.ones((1, 4), "float32")
    for worth in (0.0, 1e9):
        monkeypatch.setattr(part_contestant, "WORTH_A_LIST", worth)
        database = tmp_path / "p.sqlite"
        model = tvm_ios.tune(models, None, TARGET, lanes=2, database=database, options=QUICK)
        report = model.report()
        assert (Contestant.PARTS.value in report.comparison.names) == bool(worth)
        assert "parts: together" in report.summary()
        assert [part.name for part in report.evidence.parts.parts] == ["a", "b"]
        with model.executor() as executor:
            executor.run(a__x=x, b__x=x)
            assert executor.get_output("a").numpy().tolist() == [[12.0] * 3]
            assert executor.get_output("b").numpy().tolist() == [[8.0] * 2]
