"""Who is kept where parts have deadlines, and what is told of it."""

from __future__ import annotations

from functools import partial

import pytest

import tvm_ios
from tests.profile.test_race import raced
from tests.relay.frontends.test_joined import dense
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.deadlines import PartDeadline
from tvm_ios.profile.deadlines import choose_in_time
from tvm_ios.report.contestants import Contestant

NAMES = {who: who.value for who in (Contestant.SEQUENTIAL, Contestant.GREEDY, Contestant.IOS_LIST)}
RACED = {"sequential": 3.0, "greedy": 1.0, "ios + list": 2.0}


def chosen(**ends_ms):
    """Choice where a part with a deadline of 2 ms is done after so many, by contestant."""
    deadlines = {
        who: (
            PartDeadline(part="a", deadline_ns=2_000_000, ends_ns=(round(end * 1e6),)),
            PartDeadline(part="b", deadline_ns=10**12, ends_ns=(1,)),
        )
        for who, end in zip(NAMES, ends_ms.values(), strict=True)
    }
    return choose_in_time(raced(**RACED), NAMES, {}, deadlines)


def test_those_in_time_race_as_ever():
    assert chosen(sequential=1, greedy=1, listed=1).kept is Contestant.GREEDY
    found = chosen(sequential=1, greedy=3, listed=1)
    assert found.kept is Contestant.IOS_LIST
    assert found.reason.endswith("times as fast as sequential order")


def test_where_sequential_order_is_late_the_fastest_in_time_is_kept():
    found = chosen(sequential=3, greedy=1, listed=1)
    assert found.kept is Contestant.GREEDY
    assert "keeps all deadlines, of which sequential order misses one" in found.reason


def test_where_all_are_late_the_least_late_is_kept():
    found = chosen(sequential=5, greedy=4, listed=3)
    assert found.kept is Contestant.IOS_LIST
    assert found.reason.startswith("no schedule keeps all deadlines; this one is 1 ms late")


@pytest.mark.slow
def test_tune_says_how_often_a_deadline_was_kept(tmp_path):
    options = tvm_ios.TuneOptions(
        search=tvm_ios.SearchOptions(list_only=True),
        build=tvm_ios.BuildOptions(libraries=()),
        compare=CompareOptions(rounds=9, min_repeat_ms=0.1),
    )
    models = {"a": dense(), "b": dense(units=2)}
    tune = partial(
        tvm_ios.tune, models, target="llvm", lanes=1, database=tmp_path / "p", options=options
    )
    report = tune(deadlines_ms={"b": 1e6}).report()
    (deadline,) = report.evidence.deadlines
    assert (deadline.part, deadline.deadline_ns, deadline.is_kept) == ("b", 10**12, True)
    assert len(deadline.ends_ns) >= 10
    assert f"deadline of b, 1e+06 ms: kept, in time in {deadline.in_time} of" in report.summary()
    late = tune(deadlines_ms={"b": 1e-6}).report()
    assert late.reason.startswith("no schedule keeps all deadlines")
    assert not late.evidence.deadlines[0].is_kept
    with pytest.raises(OptionError, match="there is no part 'd'; parts are a, b"):
        tune(deadlines_ms={"d": 1})
