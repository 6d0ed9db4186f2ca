"""The pass ``tvm_ios.ScheduleOperators``: prepares, searches a schedule, and writes it into the IR.

It replaces TVM's fusing passes; only ``relay.build`` or ``tvm_ios.relay.build`` goes after it. It
has TVM's optimization level 3, so a lower PassContext leaves it out unless it is required. A
partitioned module keeps its schedule, and one that no graph executor runs (control flow, dynamic
shapes) is returned unchanged: ``tvm_ios.relay.extract(mod).coverage`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.built_model import build_prepared
from tvm_ios.compile.plan_of import hand_over_of
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.protocol import CostModel
from tvm_ios.devices.gpu import DEFAULT_STREAMS
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import lanes_for_target, local_device
from tvm_ios.errors import OptionError
from tvm_ios.passes.prepare_module import prepare_unless_done
from tvm_ios.profile.find_schedules import find_schedules
from tvm_ios.profile.list_choice import list_from
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import open_database
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.relay.extract import Extraction, extract
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import PreparedModule
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.list_schedule import OperatorTimes, list_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.pricer import Pricer
from tvm_ios.support.exact_bits import exact_bits

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
        if not isinstance(self.exact, bool):
            raise OptionError(f"exact is {self.exact!r}; give True or False")
        self._limits()
        target = resolve_target(self.target)
        lanes_for_target(self.lanes, target)
        LibraryChoice(target=target, names=self.libraries)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Module that the pass returns; TVM calls this."""
        with exact_bits(self.exact):
            prepared = prepare_unless_done(mod, self.params, self.target)
            if prepared is None:
                return mod
            extraction = extract(prepared.module)
            if not extraction.calls:
                return mod
            return rewrite(prepared.module, self.schedule(prepared, extraction))

    def schedule(self, prepared: PreparedModule, extraction: Extraction) -> InterOpSchedule:
        """Schedule that the options ask for."""
        scheduler = self.chosen_scheduler()
        if scheduler is Scheduler.SEQUENTIAL:
            return sequential_schedule(extraction.graph)
        if scheduler is Scheduler.GREEDY:
            return greedy_schedule(extraction.graph)
        if self.cost_model is not None:
            if scheduler is Scheduler.LIST:
                return self._list(extraction.graph, self.cost_model)
            return search_ios(extraction.graph, self.cost_model, self._limits()).schedule
        device = local_device(prepared.target)
        lanes, database = device.require_lanes(self.lanes), open_database(self.database)
        choice = LibraryChoice(target=prepared.target, names=() if self.exact else self.libraries)
        libraries = choice.installed()
        built = replace(build_prepared(prepared), libraries=libraries)
        with (
            device.open() as session,
            RelayStageRunner(built, lanes=lanes, session=session, database=database) as runner,
        ):
            kernels = MeasuredKernels(runner, database=database)
            prices = settled_prices(kernels)
            if scheduler is Scheduler.LIST:
                with kernels.resumable():
                    in_order = sequential_schedule(prices.graph)
                    return prices.annotate(list_from(prices, in_order, lanes=lanes))
            found = find_schedules(prices, {scheduler.value: self._limits()})
            return found.schedules[scheduler.value]

    def _limits(self) -> SearchOptions:
        return self.search.without_merges() if self.exact else self.search

    def _list(self, graph: OperatorGraph, cost_model: CostModel) -> InterOpSchedule:
        """List by prices of a cost model, which may know nothing of help by idle lanes."""
        target = resolve_target(self.target)
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
