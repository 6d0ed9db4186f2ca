"""Networks on this CPU: built, searched and raced for experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import CostError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.models import inception_v3, nasnet_large, nasnet_small, randwire, randwire_small
from tvm_ios.models.squeezenet import squeezenet
from tvm_ios.models.weights import Network
from tvm_ios.profile.build_candidates import changes_for
from tvm_ios.profile.fastest_build import build_fastest
from tvm_ios.profile.find_schedules import find_schedules
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import compiled_for, race
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.search.baselines import make_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.sample_model import sample_network

__all__ = ["PricedNetwork", "call_of", "network_of", "priced_network"]

Factory = Callable[..., Network]
_FULL: Mapping[str, Factory] = {
    "Inception V3": inception_v3,
    "NasNet-A": nasnet_large,
    "RandWire": randwire,
    "Sample": sample_network,
    "SqueezeNet": squeezenet,
}
_SMALL: Mapping[str, Factory] = {
    "Inception V3": partial(inception_v3, image_size=139),
    "NasNet-A": nasnet_small,
    "RandWire": randwire_small,
    "Sample": sample_network,
    "SqueezeNet": partial(squeezenet, image_size=64),
}


@dataclass(frozen=True, kw_only=True)
class PricedNetwork:
    """A network with its kernels, and a device that prices its stages."""

    built: BuiltModel
    kernels: MeasuredKernels
    call: MeasuringCall

    @cached_property
    def prices(self) -> StagePrices:
        """Prices of stages, once it is settled who computes each operator."""
        return settled_prices(self.kernels)

    @property
    def graph(self) -> OperatorGraph:
        """Graph of the network's operators."""
        return self.kernels.graph

    def schedules(self, limits: Mapping[str, SearchOptions]) -> Mapping[str, InterOpSchedule]:
        """Sequential order, greedy, and what each search finds within its limits, by name."""
        return find_schedules(self.prices, limits, self.call.clock, self.call.budget).schedules

    def ios(self) -> InterOpSchedule:
        """Schedule that the search finds with its usual limits."""
        return self.schedules({Contestant.IOS.value: SearchOptions()})[Contestant.IOS.value]

    def carried(self, schedule: InterOpSchedule, graph: OperatorGraph) -> InterOpSchedule:
        """The stages of a schedule that was found for another graph of the same edges."""
        edges = [[each.predecessors for each in one.operators] for one in (graph, self.graph)]
        if edges[0] != edges[1]:
            raise CostError(
                f"{graph.name} has {len(graph)} operators where the schedule was found and "
                f"{len(self.graph)} where it is to run, or other edges; it cannot be carried over"
            )
        moved = make_schedule(self.graph, schedule.stages, schedule.scheduler)
        return self.prices.annotate(moved)

    def race(self, schedules: Mapping[str, InterOpSchedule]) -> Comparison:
        """Race of all schedules, interleaved."""
        lanes, database = self.call.lanes, self.call.database
        with self.call.device.open() as session:
            models = {
                name: compiled_for(session, self.built, each, lanes=lanes, database=database)
                for name, each in schedules.items()
            }
            return race(models, options=self.call.compare, session=session)


def network_of(name: str, run: CpuRun) -> Network:
    """A network of the paper, at full size or small."""
    return (_SMALL if run.small else _FULL)[name](batch_size=run.batch)


def call_of(run: CpuRun, bench: Bench) -> MeasuringCall:
    """The call of one cell, which begins now."""
    return MeasuringCall.here(
        lanes=run.lanes,
        database=bench.database,
        time_budget=bench.time_budget,
        progress=bench.progress,
        compare=CompareOptions(rounds=run.rounds),
    )


@contextmanager
def priced_network(
    name: str,
    run: CpuRun,
    bench: Bench,
    *,
    as_it_is: bool = False,
    libraries: tuple[OperatorLibrary, ...] = (),
) -> Iterator[PricedNetwork]:
    """A network whose stages can be priced, until the end of the block.

    Parameters
    ----------
    as_it_is
        Whether it is built as it is, so that builds for other batches or kernels have the same
        operators; else in its fastest form.
    libraries
        May compute operators.
    """
    call = call_of(run, bench)
    mod, params = network_of(name, run)
    changes = () if as_it_is else changes_for(call.device.traits)
    built = build_fastest(mod, params, None, call, changes=changes, name=name).built
    built = replace(built, libraries=libraries)
    with (
        call.device.open() as session,
        StageKernels(built, lanes=run.lanes, session=session) as runner,
    ):
        kernels = MeasuredKernels(runner, database=call.database)
        yield PricedNetwork(built=built, kernels=kernels, call=call)
