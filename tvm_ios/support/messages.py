"""What tvm-ios says while it works: standard :mod:`logging`, which the command line shows.

Modules log to loggers of their names. Who uses tvm-ios as a library does with them as ever; the
command line shows them on standard error, and processes that it starts do the same.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tvm_ios.errors import OptionError

__all__ = ["Verbosity", "is_quiet", "shown_messages"]

_ROOT = logging.getLogger("tvm_ios")
_INHERITED = "TVM_IOS_VERBOSITY"
_REMARKS = logging.getLogger("strategy")
"""TVM's, which warns of layouts that it has no tuned kernels for, once an operator. Here races and
prices decide about those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbosity:
    """How much is said.

    Raises
    ------
    OptionError
        If it is to be both less and more than usual.
    """

    quiet: bool = False
    """Only results and errors."""
    verbose: int = 0
    """1 says what was decided and why, 2 and more everything, commands that are run among it."""

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise OptionError("--quiet and --verbose are given; give one of them")

    @property
    def level(self) -> int:
        """The least level of :mod:`logging` that is shown."""
        if self.quiet:
            return logging.ERROR
        return (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbose, 2)]

    @classmethod
    def inherited(cls, environment: Mapping[str, str] = os.environ) -> Verbosity:
        """That of the process that started this one; the usual one where it said nothing."""
        said = environment.get(_INHERITED, "")
        return cls(quiet=said == "q", verbose=said.count("v"))


@contextmanager
def shown_messages(verbosity: Verbosity) -> Iterator[None]:
    """Show on standard error what tvm-ios logs inside; processes started there do so, too."""
    handler = _StderrHandler()
    # Times and places are for who looks for a fault.
    form = "tvm-ios: %(message)s"
    if verbosity.level == logging.DEBUG:
        form = "%(asctime)s %(process)d %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    level, inherited = _ROOT.level, os.environ.get(_INHERITED)
    remarks = _REMARKS.level
    disabled = logging.root.manager.disable
    if verbosity.quiet:
        logging.disable(logging.WARNING)  # TVM logs, too
    _ROOT.addHandler(handler)
    _ROOT.setLevel(verbosity.level)
    if not verbosity.verbose:
        _REMARKS.setLevel(logging.ERROR)
    os.environ[_INHERITED] = "q" if verbosity.quiet else "v" * verbosity.verbose
    try:
        yield
    finally:
        _ROOT.removeHandler(handler)
        _ROOT.setLevel(level)
        _REMARKS.setLevel(remarks)
        logging.disable(disabled)
        if inherited is None:
            del os.environ[_INHERITED]
        else:
            os.environ[_INHERITED] = inherited


def is_quiet() -> bool:
    """Whether only results and errors are shown, so that progress is not."""
    return not _ROOT.isEnabledFor(logging.WARNING)


class _StderrHandler(logging.Handler):
    """Writes to what is standard error at the time: bars and tests put something in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)
