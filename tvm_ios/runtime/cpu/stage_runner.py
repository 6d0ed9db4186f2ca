"""Prices of stages: chosen operators run on real lanes, every tensor in bytes of its own.

A program is made in microseconds: kernels are loaded and calls prepared once a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.lane_pool import LaunchFailedError
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls
from tvm_ios.runtime.libraries.processor import Processor
from tvm_ios.runtime.libraries.stage_libraries import (
    LibraryStageRunner,
    PreparedStage,
    StageLaunch,
    StageLibrary,
)

__all__ = ["NativeStageRunner", "StageCalls"]


@dataclass(frozen=True, slots=True)
class StageCalls:
    """The calls of one library, ready to be put into programs."""

    launches: LoadedPlan
    kept: object
    """Objects that must live as long as the calls."""
    calls: LaunchCalls | None
    """Calls of operator libraries among them; None where no operator library computes."""

    def failure(self, position: int, where: str) -> ExecutionError | None:
        """The error of the launch at a position of the plan, if its operator library failed."""
        return None if self.calls is None else self.calls.failure(position, where)


class NativeStageRunner(LibraryStageRunner[StageCalls]):
    """Maker of stages of built libraries on lanes; closes the lanes with itself."""

    def __init__(self, processor: Processor, lanes: int) -> None:
        super().__init__()
        self._processor = processor
        self._pool = processor.pool(lanes)

    @property
    def lanes(self) -> int:
        """Number of threads, the caller's included."""
        return self._pool.lanes

    def ping_pong_ns(self) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 with one lane."""
        return self._pool.ping_pong_ns()

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return self._pool.waited_ns()

    def close(self) -> None:
        """Join the threads; may be called twice."""
        self._pool.close()
        for loaded in self._loaded.values():
            if loaded.calls is not None:
                loaded.calls.close()

    def _load(self, library: StageLibrary) -> StageCalls:
        calls = None if library.libraries is None else LaunchCalls(library.libraries)
        given = (library.plan, library.params, library.export(), calls)
        return StageCalls(*self._processor.load(*given), calls)

    def _stage(
        self, rows: Sequence[Sequence[StageLaunch]], lanes: Sequence[int], copies: int
    ) -> PreparedStage:
        """Program of a stage.

        Several groups change lanes from copy to copy, so their data have to come from another
        core's cache, as in a network.
        """
        count = len(rows)
        addresses = [[self._address(each) for each in row] for row in rows]
        program = self._pool.program(
            addresses * copies,
            [
                range(count * (copy + 1), count * (copy + 2)) if copy + 1 < copies else ()
                for copy in range(copies)
                for _ in rows
            ],
            homes=[lane + (copy if count > 1 else 0) for copy in range(copies) for lane in lanes],
        )
        launches = [each for row in rows for each in row]
        return PreparedStage(
            partial(self._pool.time_ns, program),
            (each.launch.operator for each in launches),
            copies=copies,
            told=partial(self._told, launches),
        )

    def _told(self, launches: Sequence[StageLaunch], error: ExecutionError) -> str:
        """Message for an error of a stage, with the operator that failed."""
        if not isinstance(error, LaunchFailedError):
            return f"a stage cannot be priced: {error}"
        # Positions go on from one copy of the stage to the next.
        failed = launches[error.position % len(launches)]
        where = f"operator {failed.launch.operator!r} failed while its stage was priced"
        of_library = self.loaded(failed.library).failure(failed.position, where)
        return f"{where}: {error.text.strip()}" if of_library is None else str(of_library)

    def _address(self, launch: StageLaunch) -> int:
        launches = self.loaded(launch.library).launches
        return launches.launch(launch.position, unsplit=launch.unsplit)
