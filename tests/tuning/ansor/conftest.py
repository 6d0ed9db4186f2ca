"""A search that is over soon."""

from __future__ import annotations

import pytest
from tvm.auto_scheduler import SketchPolicy

from tvm_ios.tuning.ansor import run

LITTLE = {"sample_init_min_population": 16, "evolutionary_search_num_iters": 1}
"""TVM's options of a search, for as few candidates that are not measured as may be."""


def search_little():
    """Let Ansor rank a few candidates for each one that it measures."""
    SketchPolicy.DEFAULT_PARAMS |= LITTLE
    run.POPULATION = 4


@pytest.fixture(scope="module", autouse=True)
def _little_search():
    """How well Ansor searches is no concern of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SketchPolicy, "DEFAULT_PARAMS", dict(SketchPolicy.DEFAULT_PARAMS))
        patch.setattr(run, "POPULATION", run.POPULATION)
        search_little()
        yield
