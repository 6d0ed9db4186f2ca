"""Options of the backend of ``torch.compile``: a target it cannot run is refused. Without torch."""

from __future__ import annotations

import pytest

from tvm_ios import Precision
from tvm_ios.errors import OptionError
from tvm_ios.pytorch.options import BackendOptions


def test_a_gpu_is_refused_before_anything_is_tuned():
    assert BackendOptions.of({"target": "llvm -mcpu=core-avx2"}).tuning is None
    with pytest.raises(OptionError, match=r"sm_90', but .* runs on the CPU.*from_torch"):
        BackendOptions.of({"target": "cuda -arch=sm_90"})


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({}, False),
        ({"wait": True}, True),
        ({"effort": "quick"}, False),
        ({"effort": "thorough"}, True),
        ({"effort": "thorough", "wait": False}, False),
        ({"tuning": "autotvm"}, True),
        ({"tuning": "none"}, False),
        ({"time_budget": 60}, True),
        ({"time_budget": 60, "wait": False}, False),
    ],
)
def test_who_says_how_long_waits(given, waits):
    assert BackendOptions.of(given).waits() == waits


def test_who_wants_equal_bits_waits_and_other_values_are_refused():
    assert BackendOptions.of({}).waits(deterministic=True)
    with pytest.raises(OptionError, match="wait is 'no'; give True, False or None"):
        BackendOptions.of({"wait": "no"})


def test_precision_goes_over_the_options():
    low = BackendOptions.of({"precision": "bfloat16", "max_relative_error": 0.01})
    assert low.chosen.precision == Precision(dtype="bfloat16", max_relative_error=0.01)
    assert low.call(None, None).options == low.chosen
    assert not low.waits()
    for given, message in (
        ({"precision": "half"}, "precision is 'half'"),
        ({"max_relative_error": 0.01}, "everything is computed in float32"),
    ):
        with pytest.raises(OptionError, match=message):
            BackendOptions.of(given)
