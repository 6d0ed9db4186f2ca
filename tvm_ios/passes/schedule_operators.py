"""The pass ``tvm_ios.ScheduleOperators``: prepares, searches a schedule, and writes it into the IR.

has TVM's optimization level 3, so a lower PassContext leaves it out unless it is required. A
partitioned module keeps its schedule, and one that no graph executor runs (control flow, dynamic
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.dialects.dialect import Prepared, dialect_here
from tvm_ios.compile.plan_of import hand_over_of
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.protocol import CostModel
from tvm_ios.devices.gpu import DEFAULT_STREAMS
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import lanes_for_target
from tvm_ios.errors import OptionError
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.list_schedule import OperatorTimes, list_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.pricer import Pricer
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.whole_number import require_flags

__all__ = ["ScheduleOperators", "Scheduler"]


class Scheduler(Enum):
    """Maker of the schedule."""

    IOS = "ios"
    LIST = "list"
    """List of operators on lanes: needs only prices of single operators, and has no stages."""
    GREEDY = "greedy"
    SEQUENTIAL = "sequential"


@tvm.transform.module_pass(opt_level=3, name="tvm_ios.ScheduleOperators")
@dataclass(frozen=True, kw_only=True)
class ScheduleOperators:
    """Pass that partitions a module into stages of concurrent or merged operators.

    Raises
    ------
    OptionError
        If an option has a value nobody can honour; raised where the pass is made.
    """

    target: Any
    """Target, in any form :class:`tvm.target.Target` takes."""
    params: Mapping[str, Any] | None = None
    """Parameters by name; None where weights are inputs on purpose."""
    scheduler: Scheduler | str = Scheduler.IOS
    """Scheduler or its value, such as ``"greedy"``."""
    cost_model: CostModel | None = None
    """Prices of stages for IOS, of operators for a list; None measures them on this machine."""
    search: SearchOptions = field(default_factory=SearchOptions)
    """Limits and rules of IOS, such as ``SearchOptions.of(strategies="concurrent")``."""
    lanes: int | None = None
    """Number of lanes to measure for, or to make a list for (streams on a GPU); as for ``tune``
    where omitted. Not read by IOS with a cost model."""
    database: ProfileDatabase | str | Path | None = None
    """Database of measured prices; the default file where omitted."""
    libraries: tuple[str, ...] | None = None
    """Operator libraries that may compute, as ``BuildOptions.libraries``: the schedule says which
    operators are theirs. Plain ``relay.build`` has TVM's kernels compute these as well."""
    exact: bool = False
    """True keeps stock TVM's bits while it prepares and prices, as ``BuildOptions.exact`` does."""

    def __post_init__(self) -> None:
        self.chosen_scheduler()
        if not isinstance(self.search, SearchOptions):
            raise OptionError(f"search is {self.search!r}; give SearchOptions")
        if self.search.list_only and self.chosen_scheduler() is Scheduler.IOS:
            raise OptionError("search has list_only=True, which is for tune; give scheduler='list'")
        for name in ("memory_limit_mb", "deadlines_ms"):
            if getattr(self.search, name):
                raise OptionError(
                    f"search has {name}, which is for tune: a pass plans no memory and measures no "
                    "runs; leave it out"
                )
        require_flags(self)
        self.limits()
        target = dialect_here().resolve_target(self.target)
        lanes_for_target(self.lanes, target)
        LibraryChoice(target=target, names=self.libraries)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Module that the pass returns; TVM calls this."""
        with exact_bits(self.exact):
            dialect = dialect_here()
            prepared = dialect.prepare_unless_done(mod, self.params, self.target)
            if prepared is None or not len(prepared.extraction.graph):
                return mod
            return dialect.rewrite_extraction(
                prepared.extraction, self.schedule(prepared), prepared.target
            )

    def schedule(self, prepared: Prepared) -> InterOpSchedule:
        """Schedule that the options ask for."""
        graph = prepared.extraction.graph
        scheduler = self.chosen_scheduler()
        if scheduler is Scheduler.SEQUENTIAL:
            return sequential_schedule(graph)
        if scheduler is Scheduler.GREEDY:
            return greedy_schedule(graph)
        if self.cost_model is not None:
            if scheduler is Scheduler.LIST:
                return self.list_by(graph, self.cost_model)
            return search_ios(graph, self.cost_model, self.limits()).schedule
        # It brings in all that measures.
        from tvm_ios.passes.measured_schedule import measured_schedule  # noqa: PLC0415

        return measured_schedule(self, prepared)

    def limits(self) -> SearchOptions:
        """Limits and rules of IOS; without merges where bits are to be stock TVM's."""
        return self.search.without_merges() if self.exact else self.search

    def list_by(self, graph: OperatorGraph, cost_model: CostModel) -> InterOpSchedule:
        """List by prices of a cost model, which may know nothing of help by idle lanes."""
        target = dialect_here().resolve_target(self.target)
        lanes = lanes_for_target(self.lanes, target) or DEFAULT_STREAMS
        pricer = Pricer(graph, cost_model)
        alone_ns, helped_ns = pricer.operators_ns(1), pricer.operators_ns(lanes)
        return list_schedule(
            graph,
            OperatorTimes(alone_ns=alone_ns, helped_ns=helped_ns, priced_by=pricer.description),
            lanes=lanes,
            hand_over=hand_over_of(target),
            start=sequential_schedule(graph),
        )

    def chosen_scheduler(self) -> Scheduler:
        """Scheduler, from itself or its value."""
        try:
            return Scheduler(self.scheduler)
        except ValueError as error:
            names = ", ".join(repr(known.value) for known in Scheduler)
            raise OptionError(f"scheduler is {self.scheduler!r}; give one of {names}") from error
