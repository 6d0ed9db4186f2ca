"""Networks at several batch sizes, measured on this CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_ios.report.tune_report import Contestant
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.cells.batch_size import TimedBatch
from tvm_ios_lab.cells.batch_specialization import RunAtBatch
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.network import priced_network

__all__ = ["batch_raced", "batches_raced"]

SEQUENTIAL, IOS = Contestant.SEQUENTIAL.value, Contestant.IOS.value


def batch_raced(name: str, run: CpuRun, bench: Bench) -> TimedBatch:
    """Sequential order against IOS at the batch of a run."""
    with priced_network(name, run, bench) as network:
        found = network.schedules({IOS: SearchOptions()})
        race = network.race({each: found[each] for each in (SEQUENTIAL, IOS)})
    return TimedBatch(
        sequential_ms=race.median_ns(SEQUENTIAL) / 1e6,
        ios_ms=race.median_ns(IOS) / 1e6,
        speedup=race.speedup(IOS, over=SEQUENTIAL).ratio,
        race=race,
    )


def batches_raced(name: str, batches: Sequence[int], run: CpuRun, bench: Bench) -> RunAtBatch:
    """Schedules found for each batch, all run at the batch of ``run``."""
    found = {}
    for batch in batches:
        with priced_network(name, replace(run, batch=batch), bench, as_it_is=True) as other:
            found[batch] = (other.ios(), other.graph)
    with priced_network(name, run, bench, as_it_is=True) as network:
        network.ios()  # decides which operators idle lanes help with
        race = network.race({str(batch): network.carried(*found[batch]) for batch in batches})
    return RunAtBatch(
        found_for=tuple(batches),
        ms=tuple(race.median_ns(str(batch)) / 1e6 for batch in batches),
        picture="",
        race=race,
    )
