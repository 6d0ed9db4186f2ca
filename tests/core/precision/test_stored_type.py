"""Types that numbers have in memory."""

from __future__ import annotations

import pytest

from tvm_ios.core.precision.stored_type import IN_BFLOAT16, StoredType


def test_steps_are_counted_from_zero():
    assert StoredType(dtype="uint8", scale=0.5, zero_point=128).steps == (-128, 127)
    assert StoredType(dtype="int8", zero_point=3).steps == (-131, 124)


@pytest.mark.parametrize("zero", [-128, -3, 0, 127])
def test_unsigned_numbers_stand_for_the_same(zero):
    signed = StoredType(dtype="int8", scale=0.25, zero_point=zero)
    unsigned = signed.unsigned()
    assert unsigned.dtype == "uint8"
    assert unsigned.steps == signed.steps
    assert unsigned.scale == signed.scale
    assert unsigned.unsigned() == unsigned
    assert unsigned.signed() == signed
    assert signed.signed() == signed


def test_texts_have_all_that_is_told():
    assert StoredType(dtype="uint8", scale=0.02, zero_point=128).as_text() == "uint8(0.02,128)"
    assert (IN_BFLOAT16.as_text(), IN_BFLOAT16.is_whole) == ("bfloat16", False)
