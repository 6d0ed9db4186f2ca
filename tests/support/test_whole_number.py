"""Whole numbers of any kind are taken; truth values, floats and texts are none."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.whole_number import as_whole, require_whole
from tvm_ios.tuning.options import TuningOptions


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_whole_numbers_of_any_kind(value):
    assert as_whole(value) == 3
    assert type(require_whole("n", value, least=3)) is int


@pytest.mark.parametrize("value", [True, np.bool_(True), 3.0, np.float32(3), "3", None, [3]])
def test_nothing_else_is_whole(value):
    assert as_whole(value) is None
    with pytest.raises(OptionError, match="^n is .*; give a whole number of 1 or more$"):
        require_whole("n", value, least=1)


def test_fields_of_options_become_plain_numbers():
    options = CompareOptions(rounds=np.int64(8))
    assert type(options.rounds) is int
    with pytest.raises(OptionError, match="rounds is 2; give a whole number of 6 or more"):
        CompareOptions(rounds=2)
    limits = SearchOptions(max_group_size=np.int64(2), max_block_size=np.int64(9))
    assert (type(limits.max_group_size), type(limits.max_block_size)) == (int, int)
    assert limits.max_chain_size is None
    tuning = TuningOptions(trials=np.int64(4), min_repeat_ms=np.int64(0))
    assert (type(tuning.trials), type(tuning.min_repeat_ms), tuning.threads) == (int, int, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": None}, "number is None; give a whole number of 1 or more"),
        ({"min_repeat_ms": True}, "min_repeat_ms is True; give a whole number of 0 or more"),
    ],
)
def test_only_what_may_be_omitted_may_be_none(options, message):
    with pytest.raises(OptionError, match=message):
        TuningOptions(**options)
