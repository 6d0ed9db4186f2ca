"""The schedules of a network, measured on this CPU. Loads TVM."""

from __future__ import annotations

from tvm_ios_lab.bench.evaluation import IOS_LIST, evaluate
from tvm_ios_lab.cells.schedules import CONTESTANTS, TUNE, FoundSchedules
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.network import call_of, network_of

__all__ = ["measured"]


def measured(network: str, run: CpuRun, bench: Bench) -> FoundSchedules:
    """Search every schedule of a network and race them all."""
    mod, params = network_of(network, run)
    found = evaluate(mod, params, call_of(run, bench), name=network)
    names = {**CONTESTANTS, TUNE: found.kept}
    searches = {name: found.searches.get(names[name]) for name in CONTESTANTS}
    return FoundSchedules(
        ms={name: found.comparison.median_ns(who) / 1e6 for name, who in names.items()},
        search_s={name: search.seconds if search else 0.0 for name, search in searches.items()},
        stages={
            name: len(found.models[who].schedule.stages)
            for name, who in names.items()
            if who != IOS_LIST
        },
        priced_by="this CPU",
        kept=found.kept,
        race=found.comparison,
    )
