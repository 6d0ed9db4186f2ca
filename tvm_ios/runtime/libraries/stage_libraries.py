"""Runners that price stages of built libraries: the part that lanes and streams share.

A library is an exported file with each of its tensors in bytes of its own, and has a number. It is
exported and loaded when the first of its stages is prepared: never, where all prices are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from tvm_ios.errors import CostError, ExecutionError
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import ConcatView, Placement, SliceView
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries

__all__ = ["LibraryStageRunner", "PreparedStage", "StageLibrary"]

Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLibrary(Generic[Loaded]):
    """A library whose operators can be run."""

    plan: ExecutionPlan
    load: Callable[[], Loaded]
    """Returns kernels and memory of the plan, in the form of the runner; always the same object."""
    position: Mapping[int, int]
    """Position of the launch of each operator that still has one."""
    num_operators: int


class PreparedStage:
    """A stage that is ready to be timed; what it holds is freed when the last reference goes."""

    def __init__(
        self, run_ns: Callable[[int], int], operators: Sequence[str], *, copies: int = 1
    ) -> None:
        self._run_ns = run_ns
        self._copies = copies
        self.operators = tuple(operators)
        """Names of the operators of one copy that are launched, in order."""

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` runs of the stage, including the order between runs.

        Whole numbers of copies are run, and their time is scaled to ``number``.

        Raises
        ------
        CostError
            If a kernel fails, or the runner is closed.
        """
        runs = max(1, round(number / self._copies))
        try:
            elapsed_ns = self._run_ns(runs)
        except ExecutionError as error:
            raise CostError(self._told(error)) from error
        return round(elapsed_ns * number / (runs * self._copies))

    def _told(self, error: ExecutionError) -> str:
        """Message for an error of the stage."""
        return f"a stage cannot be priced: {error}"


class LibraryStageRunner(ABC, Generic[Loaded]):
    """Maker of stages of built libraries, to measure them."""

    def __init__(self) -> None:
        self._libraries: list[StageLibrary[Loaded]] = []
        self._loaded: list[Loaded] = []
        """Kernels and memory that were loaded, to be given back by :meth:`close`."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Largest number of groups that run side by side."""

    def add_library(
        self,
        export: Callable[[], Path],
        graph: KernelGraph,
        params: Mapping[str, Any],
        views: Sequence[SliceView | ConcatView | None],
    ) -> int:
        """Plan a library with memory of its own for each of its tensors; return its number.

        ``export`` writes it by ``export_library`` and returns its path; called once. All tensors
        but parameters start as small random numbers; views of operators are taken where legal.
        """
        # A stage for each operator, and no byte used twice: any of them may then run together.
        places = [Placement(stage=index, group=0, view=view) for index, view in enumerate(views)]
        plan = lower_plan(graph, places, lanes=self.lanes, reuse=False)
        self._libraries.append(
            StageLibrary(
                plan=plan,
                load=cache(lambda: self._kept(self._load(export(), plan, params))),
                position={
                    launch.operator_index: number for number, launch in enumerate(plan.launches)
                },
                num_operators=len(places),
            )
        )
        return len(self._libraries) - 1

    def with_calls(
        self, library: int, ways: Sequence[Mapping[int, LibraryCall]], libraries: OpenLibraries
    ) -> tuple[int, ...]:
        """Further numbers for a library, each with operator libraries for some of its operators.

        All its numbers stand for the same tensors, so a stage may mix them. Each of ``ways`` has
        the complete calls of one number by operator; ``libraries`` make them, and outlive this.
        """
        base = self._libraries[library]
        launches = list(base.plan.launches)
        positions: list[dict[int, int]] = []
        for calls in ways:
            own = dict(base.position)
            for launch in base.plan.launches:
                if launch.operator_index in calls:
                    own[launch.operator_index] = len(launches)
                    launches.append(replace(launch, call=calls[launch.operator_index]))
            positions.append(own)
        plan = replace(base.plan, launches=tuple(launches))
        loaded = self._kept(self._with_calls(base.load(), plan, libraries))
        first = len(self._libraries)
        self._libraries += [
            replace(base, plan=plan, position=position, load=lambda: loaded)
            for position in positions
        ]
        return tuple(range(first, len(self._libraries)))

    def needs_no_kernel(self, library: int, operator: int) -> bool:
        """True if an operator became a view, so running it costs nothing."""
        return operator not in self._library(library, operator).position

    @abstractmethod
    def prepare(
        self,
        groups: Sequence[Sequence[tuple[int, int]]],
        *,
        unsplit: Collection[tuple[int, int]] = (),
        homes: Sequence[int] | None = None,
        copies: int = 1,
    ) -> PreparedStage:
        """Make a stage of concurrent groups ready.

        Parameters
        ----------
        groups
            For each group the (library, operator) pairs in the order they run. An operator that
            became a view costs nothing.
        unsplit
            Pairs that no idle lane helps with.
        homes
            The lane of each group; by turns where omitted.
        copies
            The stage runs this many times in a row, each copy after the one before, as stages
            follow each other in a network: by dependencies, with no start and end of a run between.

        Raises
        ------
        CostError
            If a library or operator does not exist, or cannot be loaded for lack of memory, or the
            stage cannot be run.
        """

    @abstractmethod
    def ping_pong_ns(self) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 without lanes."""

    def notes(self) -> tuple[str, ...]:
        """Lines of text on what a reader of the times ought to know."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Give back kernels, memory, lanes and streams; may be called twice."""

    @abstractmethod
    def _load(self, path: Path, plan: ExecutionPlan, params: Mapping[str, Any]) -> Loaded:
        """Load the kernels of a plan, and give its tensors memory and values."""

    @abstractmethod
    def _with_calls(self, loaded: Loaded, plan: ExecutionPlan, libraries: OpenLibraries) -> Loaded:
        """Loaded kernels and memory, extended to a plan with further launches over them."""

    def _kept(self, loaded: Loaded) -> Loaded:
        self._loaded.append(loaded)
        return loaded

    def _library(self, number: int, operator: int) -> StageLibrary[Loaded]:
        """The library of a number, which has to have the operator."""
        if not 0 <= number < len(self._libraries):
            raise CostError(
                f"there is no library {number}: {len(self._libraries)} were added; "
                "use what add_library returned"
            )
        library = self._libraries[number]
        if not 0 <= operator < library.num_operators:
            raise CostError(
                f"library {number} has no operator {operator}: it has {library.num_operators}"
            )
        return library
