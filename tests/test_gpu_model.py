"""The analytical model orders schedules as the published measurements do."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "gpu_model.py"


@pytest.fixture(scope="module")
def script():
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("gpu_model_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize(
    "network",
    [
        "Inception V3",
        "SqueezeNet",
        pytest.param("RandWire", marks=[pytest.mark.slow, pytest.mark.full]),
        pytest.param("NasNet-A", marks=pytest.mark.slow),
    ],
)
def test_order_and_size_are_the_published_ones(script, network):
    (case,) = [case for case in script.CASES if case.name == network]
    published, model = case.published_ms, script.modelled_ms(case)
    assert len(published) == len(model) == len(script.SCHEDULERS)
    for ours, theirs in zip(model, published, strict=True):
        assert ours == pytest.approx(theirs, rel=0.16)
    for first in range(len(model)):
        for second in range(len(model)):
            if published[first] < 0.97 * published[second]:
                assert model[first] < model[second]
    agreement = script.agreement(case, model)
    right, pairs = agreement.order()
    assert right == pairs > 0
    assert all(abs(error) < 0.08 for error in agreement.errors.values())
