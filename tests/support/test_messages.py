"""What is shown of the log, and what processes that are started learn of it."""

from __future__ import annotations

import logging
import os

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.support.c_compiler import compile_shared
from tvm_ios.support.messages import Verbosity, is_quiet, shown_messages

LOG = logging.getLogger("tvm_ios")


@pytest.mark.parametrize(
    ("verbosity", "level"),
    [
        (Verbosity(quiet=True), logging.ERROR),
        (Verbosity(), logging.WARNING),
        (Verbosity(verbose=1), logging.INFO),
        (Verbosity(verbose=2), logging.DEBUG),
        (Verbosity(verbose=5), logging.DEBUG),
    ],
)
def test_levels_and_what_children_inherit(verbosity, level):
    before = LOG.level, LOG.handlers[:], dict(os.environ)
    with shown_messages(verbosity):
        assert LOG.level == level
        assert is_quiet() == verbosity.quiet
        assert Verbosity.inherited(os.environ).level == level
    assert (LOG.level, LOG.handlers, dict(os.environ)) == before


def test_who_inherits_nothing_is_as_usual():
    assert Verbosity.inherited({}) == Verbosity()


def test_less_and_more_at_once_are_refused():
    with pytest.raises(OptionError, match="give one of them"):
        Verbosity(quiet=True, verbose=1)


def test_quiet_holds_for_others_who_log_as_well():
    with shown_messages(Verbosity(quiet=True)):
        assert not logging.getLogger("te_compiler").isEnabledFor(logging.WARNING)
        assert logging.getLogger("te_compiler").isEnabledFor(logging.ERROR)
    assert logging.getLogger("te_compiler").isEnabledFor(logging.WARNING)


def test_what_tvm_remarks_on_layouts_is_for_who_asks():
    remarks = logging.getLogger("strategy")
    with shown_messages(Verbosity()):
        assert not remarks.isEnabledFor(logging.WARNING)
    with shown_messages(Verbosity(verbose=1)):
        assert remarks.isEnabledFor(logging.WARNING)
    assert remarks.isEnabledFor(logging.WARNING)


def test_commands_that_are_run_are_in_the_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    source = tmp_path / "seven.c"
    source.write_text("int seven(void) { return 7; }\n")
    with shown_messages(Verbosity(verbose=2)):
        compile_shared(source)
    said = capsys.readouterr().err.splitlines()
    compiled, linked = [each for each in said if "tvm_ios.support.c_compiler: runs " in each]
    assert str(source) in compiled
    assert "-shared" in linked
