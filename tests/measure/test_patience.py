from __future__ import annotations

import math

from tvm_ios.measure.patience import Patience


def test_half_of_it_is_kept_for_the_last_race() -> None:
    patience = Patience(20)
    assert patience.left_s == 10
    patience.spent_ns = 11 * 10**9
    assert patience.left_s == 0
    patience.begin_last_race()
    assert patience.left_s == 9


def test_without_a_total_only_watches_have_limits() -> None:
    assert Patience().left_s == math.inf
