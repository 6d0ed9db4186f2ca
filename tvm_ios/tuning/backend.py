"""Protocol of back ends that tune kernels."""

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
"""Function that returns a context in which records are in force."""


class TuningBackend(Protocol):
    """A tuner of a model's kernels, which also applies its records."""

    @property
    def name(self) -> str:
        """Name that users give."""

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
            The log: its candidates are not measured again, new ones are appended.

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
        """Context to prepare and compile a model in, so that it gets the best kernels.

        Parameters
        ----------
        records
            Logs without rejected lines.
        target
            Target whose records of a kernel exclude others; all count where omitted.
        """

    def variants(
        self, records: Sequence[Path], target: tvm.target.Target
    ) -> Mapping[str, Application]:
        """Ways to apply records of logs, by name, of which the network's own time chooses one."""
