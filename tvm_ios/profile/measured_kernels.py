"""Kernels of a built model with all that was measured of them, whoever computes its operators.

The module is built once. Every stage of a search is timed with its kernels, on the lanes of the
final executor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.measured import MeasureCounters, MeasuredStages, MeasureOptions
from tvm_ios.profile.measuring_call import profile_context
from tvm_ios.profile.stage_kernels import RelayStageRunner

__all__ = ["MeasuredKernels"]


class MeasuredKernels:
    """Kernels of one built model, and times of its stages, each measured once.

    Without a database, prices are kept in memory only.
    """

    def __init__(
        self,
        runner: RelayStageRunner,
        *,
        database: ProfileDatabase | None = None,
        options: MeasureOptions | None = None,
    ) -> None:
        self.runner = runner
        self.graph = runner.built.graph
        self._database = database
        context = profile_context(runner.built.prepared.target, runner.lanes, runner.session.device)
        own, *others = runner.graphs.values()
        libraries = (library.identity() for library in runner.built.libraries)
        calls = (each.fingerprint() for each in others)
        self.identity = " with ".join((own.fingerprint(), *libraries, *calls))
        """Text that names the graph, the code of its kernels, and the operator libraries that may
        compute in their place, with their calls."""
        self.choices = KnownChoices(database, context)
        """Choices that were made before under the conditions of these prices."""
        self.measured = MeasuredStages(
            runner, context, options=options, database=database, patience=runner.session.patience
        )
        """Times of stages by themselves."""

    @property
    def counters(self) -> MeasureCounters:
        """Counts and seconds of all pricing so far."""
        return self.measured.counters

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Context that saves prices at its end; after Ctrl-C the exception says how to go on."""
        try:
            try:
                yield
            finally:
                self.measured.save()
        except KeyboardInterrupt as interrupt:
            kept = self.counters.priced - self.counters.unsaved
            path = None if self._database is None else self._database.path
            interrupt.add_note(
                f"{kept} measured prices are kept in {path}; do the same again to go on from there"
            )
            raise
