"""Runners that price stages of built libraries: the part that lanes and streams share.

A library is an exported file with each of its tensors in bytes of its own, and has a number. It is
exported and loaded when the first of its stages is prepared: never, where all prices are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from tvm_ios.errors import CostError, ExecutionError
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import ConcatView, Placement, SliceView
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries

__all__ = ["LibraryStageRunner", "PreparedStage", "StageLaunch", "StageLibrary"]

Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageLibrary:
    """A library whose operators can be run."""

    export: Callable[[], Path]
    """Writes the library by ``export_library`` and returns its path; called once."""
    plan: ExecutionPlan
    """Plan with every operator by every maker; no tensor shares bytes with another."""
    params: Mapping[str, Any]
    num_operators: int
    libraries: OpenLibraries | None
    """Maker of the calls in the plan, which outlives the runner; None without calls."""


class StageLaunch(NamedTuple):
    """A launch of a library's plan in a stage."""

    library: StageLibrary
    position: int
    unsplit: bool
    """True if no idle lane helps with it."""

    @property
    def launch(self) -> Launch:
        """The launch in the plan."""
        return self.library.plan.launches[self.position]


def _told(error: ExecutionError) -> str:
    return f"a stage cannot be priced: {error}"


class PreparedStage:
    """A stage that is ready to be timed; what it holds is freed when the last reference goes.

    ``told`` makes the message for an error of a run.
    """

    def __init__(
        self,
        run_ns: Callable[[int], int],
        operators: Iterable[str],
        *,
        copies: int = 1,
        told: Callable[[ExecutionError], str] = _told,
    ) -> None:
        self._run_ns = run_ns
        self.operators = tuple(operators)
        """Names of the operators of one copy that are launched, in order."""
        self._copies = copies
        self._told = told

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


class LibraryStageRunner(ABC, Generic[Loaded]):
    """Maker of stages of built libraries, to measure them."""

    def __init__(self) -> None:
        self._numbered: list[tuple[StageLibrary, Mapping[int, int]]] = []
        """Library of each number, with the position of each operator's launch, if it has one."""
        self._loaded: dict[StageLibrary, Loaded] = {}
        """Kernels and memory, to be given back by :meth:`close`."""

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
        ways: Sequence[Mapping[int, LibraryCall]] = (),
        libraries: OpenLibraries | None = None,
        absent: Collection[int] = (),
    ) -> int:
        """Plan a library with memory of its own for each of its tensors; return its number.

        Each of ``ways`` gets a number after that, in turn. Such a number stands for the same
        tensors, with operator libraries for some operators, so a stage may mix them.

        Parameters
        ----------
        export, params
            Those of :class:`StageLibrary`. All tensors but parameters start as small random
            numbers.
        views
            View of each operator, taken where legal.
        ways
            Complete calls by operator.
        libraries
            Maker of those calls, which outlives this.
        absent
            Operators without a kernel: the first of ``ways`` with a call of one stands for it.
        """
        # A stage for each operator, and no byte used twice: any of them may then run together.
        places = [Placement(stage=index, group=0, view=view) for index, view in enumerate(views)]
        plan = lower_plan(graph, places, lanes=self.lanes, reuse=False)
        plan, positions = _with_calls(plan, ways, absent)
        library = StageLibrary(
            export=export,
            plan=plan,
            params=params,
            num_operators=len(places),
            libraries=libraries,
        )
        self._numbered += [(library, position) for position in positions]
        return len(self._numbered) - len(positions)

    def needs_no_kernel(self, library: int, operator: int) -> bool:
        """True if an operator became a view, so running it costs nothing."""
        return self._launch(library, operator) is None

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
        rows: list[list[StageLaunch]] = []
        lanes: list[int] = []
        for place, group in enumerate(groups):
            found = (self._launch(*pair, unsplit=pair in unsplit) for pair in group)
            row = [launch for launch in found if launch is not None]
            if row:
                lanes.append(len(rows) if homes is None else homes[place])
                rows.append(row)
        if not rows:
            return PreparedStage(lambda _runs: 0, ())
        try:
            return self._stage(rows, lanes, copies)
        except ExecutionError as error:
            raise CostError(_told(error)) from error

    @abstractmethod
    def ping_pong_ns(self) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 without lanes."""

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return None

    def notes(self) -> tuple[str, ...]:
        """Lines of text on what a reader of the times ought to know."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Give back kernels, memory, lanes and streams; may be called twice."""

    @abstractmethod
    def _load(self, library: StageLibrary) -> Loaded:
        """Load the kernels of a library, and give its tensors memory and values."""

    @abstractmethod
    def _stage(
        self, rows: Sequence[Sequence[StageLaunch]], lanes: Sequence[int], copies: int
    ) -> PreparedStage:
        """Make a stage ready: the launches of each group, none of them empty, and its lane."""

    def loaded(self, library: StageLibrary) -> Loaded:
        """Kernels and memory of a library, loaded on first use."""
        if library not in self._loaded:
            self._loaded[library] = self._load(library)
        return self._loaded[library]

    def _launch(self, number: int, operator: int, *, unsplit: bool = False) -> StageLaunch | None:
        """The launch of an operator of a numbered library; None if it became a view."""
        if not 0 <= number < len(self._numbered):
            raise CostError(
                f"there is no library {number}: {len(self._numbered)} were added; "
                "use what add_library returned"
            )
        library, positions = self._numbered[number]
        if not 0 <= operator < library.num_operators:
            raise CostError(
                f"library {number} has no operator {operator}: it has {library.num_operators}"
            )
        position = positions.get(operator)
        return None if position is None else StageLaunch(library, position, unsplit)


def _with_calls(
    plan: ExecutionPlan, ways: Sequence[Mapping[int, LibraryCall]], absent: Collection[int]
) -> tuple[ExecutionPlan, list[dict[int, int]]]:
    """Plan with a launch more for each call, and positions of operators without and with each way.

    Positions are those of launches, by operator; views have none. An absent operator's launch has a
    call already.
    """
    launches = [
        replace(launch, call=_first_call(ways, launch.operator_index))
        if launch.operator_index in absent
        else launch
        for launch in plan.launches
    ]
    positions = [{launch.operator_index: number for number, launch in enumerate(launches)}]
    for calls in ways:
        own = dict(positions[0])
        for launch in launches[: len(plan.launches)]:
            call = calls.get(launch.operator_index, launch.call)
            if call != launch.call:
                own[launch.operator_index] = len(launches)
                launches.append(replace(launch, call=call))
        positions.append(own)
    return replace(plan, launches=tuple(launches)), positions


def _first_call(ways: Sequence[Mapping[int, LibraryCall]], operator: int) -> LibraryCall:
    return next(calls[operator] for calls in ways if operator in calls)
