"""Messages of tvm-ios while it works: standard :mod:`logging`, shown by the command line.

Modules log to loggers of their names. Programs that use tvm-ios as a library handle them as usual;
the command line shows them on standard error, as do the processes that it starts.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tvm_ios.errors import OptionError
from tvm_ios.support.printable import printable, printable_output

__all__ = ["Verbosity", "is_quiet", "shown_messages"]

_ROOT = logging.getLogger("tvm_ios")
_INHERITED = "TVM_IOS_VERBOSITY"
_REMARKS = logging.getLogger("strategy")
"""TVM's logger that warns, for each operator, of layouts without tuned kernels. Races and prices
decide about those here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbosity:
    """Amount of messages shown: usual, less, or more."""

    quiet: bool = False
    """True shows only results and errors."""
    verbose: int = 0
    """1 shows decisions and their reasons; 2 and more everything, including commands that are
    run."""

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise OptionError("--quiet and --verbose are given; give one of them")

    @property
    def level(self) -> int:
        """Lowest level of :mod:`logging` that is shown."""
        if self.quiet:
            return logging.ERROR
        return (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbose, 2)]

    @classmethod
    def inherited(cls, environment: Mapping[str, str] = os.environ) -> Verbosity:
        """Verbosity of the process that started this one; the usual one if that set none."""
        said = environment.get(_INHERITED, "")
        return cls(quiet=said == "q", verbose=said.count("v"))


@contextmanager
def shown_messages(verbosity: Verbosity) -> Iterator[None]:
    """Context that shows tvm-ios's log on standard error; processes started in it do so, too.

    What is printed inside, results included, has no control characters.
    """
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
        with printable_output():
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
    """True if only results and errors are shown, and so no progress."""
    return not _ROOT.isEnabledFor(logging.WARNING)


class _StderrHandler(logging.Handler):
    """Handler for the standard error of the moment, which bars and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable(self.format(record)), file=sys.stderr, flush=True)
