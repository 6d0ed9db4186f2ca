from __future__ import annotations

from functools import partial

import pytest
from tvm.autotvm.tuner import xgboost_tuner


@pytest.fixture(autouse=True)
def _little_annealing(monkeypatch):
    """How well AutoTVM searches is no concern of these tests."""
    short = partial(xgboost_tuner.SimulatedAnnealingOptimizer, n_iter=5, parallel_size=8)
    monkeypatch.setattr(xgboost_tuner, "SimulatedAnnealingOptimizer", short)
