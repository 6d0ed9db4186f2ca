"""What may be said of a precision, and which of it goes over what was said before."""

from __future__ import annotations

import pytest

from tvm_ios.core.precision.low_precision import PRECISIONS, LowPrecision, Precision
from tvm_ios.errors import OptionError

LOW = Precision(dtype="bfloat16", max_relative_error=0.01)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dtype": "bf16"}, "precision is 'bf16'; give 'float32' or 'bfloat16'"),
        ({"max_relative_error": 0}, "max_relative_error is 0; give a number above 0"),
        ({"max_relative_error": True}, "max_relative_error is True; give a number"),
        ({"max_relative_error": float("nan")}, "max_relative_error is nan; give a number"),
    ],
)
def test_other_values_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        Precision(**given)


def test_what_is_given_goes_over_what_was_said():
    assert LOW.changed() is not LOW
    assert LOW.changed() == LOW
    assert LOW.changed("float32").is_low is False
    assert LOW.changed(max_relative_error=0.1).max_relative_error == 0.1
    assert Precision().changed("bfloat16", 0.01) == LOW


def test_a_bound_needs_something_to_bound():
    for precision, dtype in ((Precision(), None), (LOW, "float32")):
        with pytest.raises(OptionError, match="max_relative_error is 0.2, but everything is comp"):
            precision.changed(dtype, 0.2)


def test_operators_with_results_or_weights_are_counted_once():
    assert LowPrecision(results=(0, 2), weights=(2, 3)).operators == {0, 2, 3}


def test_models_are_computed_in_float32_unless_somebody_asks():
    assert not Precision().is_low
    assert [Precision(dtype=name).is_low for name in PRECISIONS] == [False, True]


@pytest.mark.parametrize("error", [1, 1e-9, float("inf")])
def test_any_error_above_none_may_be_asked_for(error):
    assert Precision(max_relative_error=error).max_relative_error == error
