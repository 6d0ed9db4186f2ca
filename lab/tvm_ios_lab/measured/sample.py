"""The sample network, measured on this CPU."""

from __future__ import annotations

from tvm_ios.core.schedule import Strategy
from tvm_ios.report.figure import draw_if_possible
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.cells.sample import SAMPLED, SampledNetwork, SampledSchedule, stages_text
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.network import priced_network

__all__ = ["measured"]


def measured(run: CpuRun, bench: Bench) -> SampledNetwork:
    """Search its schedules, race them, and price their stages."""
    sequential, parallel, both = SAMPLED
    limits = {
        parallel: SearchOptions(strategies=frozenset({Strategy.CONCURRENT})),
        both: SearchOptions(),
    }
    with priced_network("Sample", run, bench) as network:
        found = network.schedules(limits)
        graph = network.graph
        stage_ns = {
            name: tuple(map(int, network.prices.price(graph, found[name].stages)))
            for name in SAMPLED
        }
        comparison = network.race({name: found[name] for name in SAMPLED})
    return SampledNetwork(
        schedules=tuple(
            SampledSchedule(
                name=name,
                ms=comparison.median_ns(name) / 1e6,
                over_sequential=comparison.speedup(name, over=sequential).ratio,
                stages=stages_text(graph, found[name].stages),
                stage_us=tuple(ns / 1e3 for ns in stage_ns[name]),
                picture=draw_if_possible(
                    graph,
                    found[name],
                    bench.folder / f"CPU-{name}.png",
                    stage_ns[name],
                ),
            )
            for name in SAMPLED
        ),
        race=comparison,
    )
