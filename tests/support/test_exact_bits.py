"""Exact bits: wanted in a context, and nowhere else."""

from __future__ import annotations

import pytest

from tvm_ios.support.exact_bits import bits_may_change, exact_bits


def test_bits_may_change_unless_exact_ones_are_wanted() -> None:
    assert bits_may_change()
    with exact_bits(True):
        assert not bits_may_change()
        with exact_bits(False):
            assert not bits_may_change()
    with exact_bits(False):
        assert bits_may_change()


def test_an_exception_ends_the_context() -> None:
    with pytest.raises(ValueError, match="^any$"), exact_bits(True):
        raise ValueError("any")
    assert bits_may_change()
