"""The known name that a mistyped one is near to."""

from __future__ import annotations

from tvm_ios.support.near_name import did_you_mean


def test_the_nearest_name_is_asked_for():
    assert did_you_mean("tuen", ("run", "tune")) == "; did you mean 'tune'?"
    assert did_you_mean("tuen", ["tune"], ", ") == ", did you mean 'tune'?"


def test_of_no_near_name_nothing_is_said():
    assert did_you_mean("xyz", ("run", "tune")) == ""
