"""What is told of a choice between float32 and bfloat16."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.core.precision.precision_outcome import PrecisionOutcome, promised_speedup

KEPT = PrecisionOutcome(
    dtype="bfloat16", operators=9, back=2, errors=(0.0035, 0.001), speedup=1.9, inputs_given=False
)


def test_what_was_kept_is_told_with_its_error():
    assert KEPT.as_text() == (
        "bfloat16: 1.90 times as fast as float32, outputs off by at most 0.0035 of their largest "
        "value (checked on made-up inputs)"
    )
    assert "(checked on the inputs given)" in replace(KEPT, inputs_given=True).as_text()
    (line,) = KEPT.details()
    assert "of 9 operators in bfloat16, 2 went back to float32" in line
    assert line.endswith("output 0: 0.0035, output 1: 0.001")


def test_float32_is_told_with_its_reason():
    told = KEPT.as_float32("its error is above the bound of 0.001").as_text()
    assert told.startswith("bfloat16: float32 was kept, since its error is above the bound of 0.0")
    assert told.endswith(
        "; outputs off by at most 0.0035 of their largest value (checked on made-up inputs)"
    )
    unchecked = PrecisionOutcome(dtype="float32", reason="it has no products with weights")
    assert unchecked.as_text() == (
        "bfloat16: float32 was kept, since it has no products with weights"
    )
    assert unchecked.details() == ()


def test_an_output_that_is_not_finite_is_within_no_bound():
    odd = replace(KEPT, errors=(0.1, None))
    assert odd.worst is None
    assert not odd.is_within(1e9)
    assert "at most infinity" in odd.as_text()
    assert KEPT.is_within(0.0035)
    assert not KEPT.is_within(0.0034)


@pytest.mark.parametrize(
    ("product_ns", "all_ns", "promised"), [(100, 100, 2.0), (50, 100, 4 / 3), (5, 100, None)]
)
def test_products_are_promised_to_take_half_the_time(product_ns, all_ns, promised):
    assert promised_speedup(product_ns, all_ns) == promised
    assert promised_speedup(0, 0) is None


def test_a_promise_says_about_and_how_to_ask():
    told = PrecisionOutcome(dtype="float32", promised=1.944).as_text()
    assert told.startswith("bfloat16: about 1.9 times as fast by a prediction, outputs off by at ")
    assert "at most 0.03 of" in told
    assert told.endswith("(precision='bfloat16', or --precision bfloat16)")
