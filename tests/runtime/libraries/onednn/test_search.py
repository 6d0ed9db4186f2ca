"""Which cut of those that were timed is taken."""

from __future__ import annotations

import pytest

from tests.runtime.libraries.onednn.calls import tensor
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive
from tvm_ios.runtime.libraries.onednn.search import (
    GAIN,
    SPREAD_GAIN,
    WEIGHT_BYTES_PER_NS,
    choose,
    reading_ns,
)

ROWS, CHANNELS, FOUR = (1, 1, 2), (1, 2, 1), (1, 1, 4)


@pytest.mark.parametrize(
    ("rows_ns", "channels_ns", "four_ns", "gain", "chosen"),
    [
        (100, 96, 100, GAIN, CHANNELS),
        (100, 96, 100, SPREAD_GAIN, ROWS),
        (100, 89, 100, SPREAD_GAIN, CHANNELS),
        (100, 99, 96, SPREAD_GAIN, FOUR),
        (100, 99, 98, GAIN, ROWS),
    ],
)
def test_a_cut_has_to_gain_what_is_not_timed(rows_ns, channels_ns, four_ns, gain, chosen):
    assert choose({ROWS: rows_ns, CHANNELS: channels_ns, FOUR: four_ns}, gain) == chosen


@pytest.mark.parametrize(
    ("constant", "counts", "lanes", "share"),
    [
        (True, (2, 1, 1), 2, 1),
        (True, (1, 2, 1), 2, 1 / 2),
        (True, (1, 4, 1), 2, 1 / 2),
        (True, (1, 4, 1), 8, 1 / 4),
        (True, (2, 2, 1), 4, 1),
        (False, (2, 1, 1), 2, 0),
    ],
)
def test_lanes_that_compute_channels_of_their_own_read_a_share_of_the_weights(
    constant, counts, lanes, share
):
    call = OnednnCall(
        primitive=Primitive.PRODUCT,
        data=tensor(64, 96, position=0),
        weight=tensor(96, 128, position=1, constant=constant),
        bias=None,
        result=tensor(64, 128),
    )
    assert reading_ns(call, counts, lanes) == share * 4 * 96 * 128 / WEIGHT_BYTES_PER_NS
