"""Table 1 is counted exactly, and agrees with the published digits."""

from __future__ import annotations

import pytest

from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.papers.counts import PUBLISHED, Counts, CountsCell

EXACT = {
    ("Inception V3", "published"): (180, 4871, 3757392),
    ("Inception V3", "definition"): (180, 5040, 4410136),
    ("NasNet-A", "published"): (2200, 307841, 7150961274600),
    ("NasNet-A", "definition"): (2200, 335331, 8839301008800),
    ("RandWire", "published"): (5420, 1170663, 91973106270886052032664),
    ("RandWire", "definition"): (5420, 3560808, 118464662394143512150016),
    ("SqueezeNet", "published"): (12, 51, 131),
    ("SqueezeNet", "definition"): (12, 60, 152),
}
"""States, transitions and schedules, as an independent enumeration has them."""
SLOW = [pytest.mark.slow]


def two_digits(value):
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}e{int(power)}"


@pytest.mark.parametrize(
    ("network", "endings"),
    [pytest.param(*key, marks=SLOW if key[0] in ("RandWire", "NasNet-A") else ()) for key in EXACT],
)
def test_counts_are_exact_and_published(network, endings, tmp_path):
    cell = CountsCell(network=network, endings=endings)
    found = Counts().measure(cell, Bench(folder=tmp_path))
    assert (found.states, found.transitions, found.schedules) == EXACT[network, endings]
    told = PUBLISHED[network]
    assert (found.operators, found.width) == (told.operators, told.width)
    assert two_digits(found.bound) == told.bound
    assert found.transitions <= found.bound
    if endings == "published":
        assert two_digits(found.schedules) == told.schedules
        assert told.transitions in (str(found.transitions), two_digits(found.transitions))
