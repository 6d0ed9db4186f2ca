"""Which cut of those that were timed is taken."""

from __future__ import annotations

import pytest

from tvm_ios.runtime.libraries.onednn.search import GAIN, SPREAD_GAIN, choose

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
