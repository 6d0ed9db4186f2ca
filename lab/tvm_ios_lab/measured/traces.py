"""Runs of the sample network that are traced and counted on this CPU."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.compile.lower import lower_schedule
from tvm_ios.errors import HostError
from tvm_ios.profile.find_schedules import search_schedule
from tvm_ios.profile.measured_kernels import measure_operators
from tvm_ios.profile.prices import StagePrices
from tvm_ios.runtime.base.plan_module import PlanModule
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.cells.utilization import SCHEDULES, Busyness, BusyTime
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.event_counter import CountedEvent, EventCounter
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.network import priced_network

__all__ = ["traced"]

COUNTED_RUNS = 20


def traced(run: CpuRun, bench: Bench) -> Busyness:
    """Busy times in one run of each schedule, warmed up by others; no operator is split."""
    runs = []
    uncounted = ""
    with priced_network("Sample", run, bench) as network:
        choice = measure_operators(network.kernels).choice()
        unsplit = tuple(range(len(network.graph)))
        prices = StagePrices(network.kernels, replace(choice, unsplit=unsplit))
        ios = search_schedule(prices, SearchOptions(), budget=network.call.budget)
        schedules = (sequential_schedule(prices.graph), ios.schedule)
        for name, schedule in zip(SCHEDULES, schedules, strict=True):
            model = lower_schedule(network.built, prices.annotate(schedule), lanes=run.lanes)
            with model.executor() as executor:
                executor.time_ns(3)
                events = executor.trace()
                try:
                    instructions_per_us = _instructions_per_us(executor)
                except HostError as error:
                    instructions_per_us, uncounted = None, str(error)
            spans = tuple((each.start_ns / 1e3, each.end_ns / 1e3, 1.0) for each in events)
            runs.append(
                BusyTime(
                    schedule=name,
                    run_us=max(end for _, end, _ in spans),
                    spans=spans,
                    instructions_per_us=instructions_per_us,
                )
            )
    return Busyness(unit="busy lanes", runs=tuple(runs), uncounted=uncounted)


def _instructions_per_us(executor: PlanModule) -> float:
    """Instructions in a microsecond of back-to-back runs, those of a waiting lane included."""
    with EventCounter(CountedEvent.INSTRUCTIONS) as counter:
        before = counter.read()
        elapsed_ns = executor.time_ns(COUNTED_RUNS)
        return (counter.read() - before) * 1e3 / elapsed_ns
