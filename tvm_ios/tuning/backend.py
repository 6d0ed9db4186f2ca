"""Protocol that every way of tuning kernels offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import tvm

from tvm_ios.support.progress import ProgressListener
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TuningOutcome

__all__ = ["Application", "TuningBackend"]

Application = Callable[[], AbstractContextManager[Any]]
"""Gives a context in which records are in force."""


class TuningBackend(Protocol):
    """Tunes the kernels of a model, and applies what was found."""

    @property
    def name(self) -> str:
        """The name that users give."""

    def tune(
        self,
        mod: tvm.IRModule,
        params: Mapping[str, Any],
        target: tvm.target.Target,
        records: Path,
        options: TuningOptions,
        progress: ProgressListener | None = None,
    ) -> TuningOutcome:
        """Measure candidates for the model's kernels until the budget is spent.

        Parameters
        ----------
        mod, params, target
            The user's model, as for :func:`tvm_ios.tune`.
        records
            The log: what it holds is not measured again, what is measured is appended.

        Raises
        ------
        TuningError
            If a tuner or a tracker is missing.
        RecordError
            If the log cannot be read or written.
        """

    def applied(
        self, records: Sequence[Path], target: tvm.target.Target | None = None
    ) -> AbstractContextManager[None]:
        """A context to prepare and compile a model in, so that it gets the best kernels.

        Parameters
        ----------
        records
            Logs, without rejected lines.
        target
            Where a kernel has records of this target, others do not count; all do where omitted.
        """

    def variants(
        self, records: Sequence[Path], target: tvm.target.Target
    ) -> Mapping[str, Application]:
        """Ways to apply the records of logs, of which the network's own time chooses one.

        Returns
        -------
        variants
            By name: what gives a context to prepare and compile under, as often as it is called.
        """
