"""The analytical CPU model held against races on this machine, and what it predicts for others.

Run from the root of a checkout:

    python -m tvm_ios_lab.scripts.cpu_model            # tables of docs/cpu-model.md, stored races
    python -m tvm_ios_lab.scripts.cpu_model --measure  # races anew, into lab/results/cpu_model.json

Schedules are searched by the model alone; the race times sequential order, greedy and IOS of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvm_ios.cli.measuring import prepare_process
from tvm_ios.report.table import Table
from tvm_ios_lab.harness.agreement import Agreement, mean_error
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS

FILE = RESULTS / "cpu_model.json"
NETWORKS = ("nasnet_small", "squeezenet")
MEASURED, PREDICTED = (1, 2), (4, 16, 64)
"""Numbers of lanes."""
NAMES = ("sequential", "greedy", "IOS")


def main() -> None:
    """Race if asked to, then print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="race on this machine first")
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    prepare_process(None)
    if arguments.measure:
        FILE.write_text(json.dumps(_races(arguments.rounds), indent=1) + "\n")
    stored = json.loads(FILE.read_text())
    found = []
    for race in stored["races"]:
        model_ms, _ = _modelled(race["network"], race["lanes"])
        subject = f"{race['network']}, {race['lanes']} lanes"
        found.append(Agreement(subject=subject, observed_ms=race["median_ms"], model_ms=model_ms))
    print(f"{stored['machine']['processor']}, {stored['taken_at']}\n")
    print(_held_against(found).as_markdown())
    off = mean_error(error for each in found for error in each.errors.values())
    print(f"\nspeedups are off by {off:.1%} in the geometric mean\n")
    print(_predictions().as_markdown())


def _races(rounds: int) -> dict[str, Any]:
    from tvm_ios.compile.built_model import build_model  # noqa: PLC0415
    from tvm_ios.compile.lower import lower_schedule  # noqa: PLC0415
    from tvm_ios.devices.local import LocalCpu  # noqa: PLC0415
    from tvm_ios.host import host_target  # noqa: PLC0415
    from tvm_ios.measure.compare import CompareOptions  # noqa: PLC0415
    from tvm_ios.models import by_name  # noqa: PLC0415
    from tvm_ios.profile.race import race  # noqa: PLC0415
    from tvm_ios_lab.peers.peak import measure_peak  # noqa: PLC0415

    peak = measure_peak()
    races = []
    for network in NETWORKS:
        mod, params = by_name(network)()
        built = build_model(mod, params, host_target(), name=network)
        for lanes in MEASURED:
            schedules = _schedules(built.graph, lanes)
            models = {
                name: lower_schedule(built, each, lanes=lanes) for name, each in schedules.items()
            }
            with LocalCpu().open() as session:
                taken = race(models, options=CompareOptions(rounds=rounds), session=session)
            races.append(
                {
                    "network": network,
                    "lanes": lanes,
                    "median_ms": {name: taken.median_ns(name) / 1e6 for name in models},
                    "speedups": [taken.speedup(n, over=NAMES[0]).as_text() for n in NAMES[1:]],
                    "comparison": taken.as_record(),
                }
            )
    return {
        **Measurement.here(program_command("tvm_ios_lab.scripts.cpu_model")).origin(),
        "peak_gflops_of_each_core": peak.of_each_core,
        "races": races,
    }


def _graph(network: str) -> Any:
    from tvm_ios.host import host_target  # noqa: PLC0415
    from tvm_ios.models import by_name  # noqa: PLC0415
    from tvm_ios.relay import extract, prepare  # noqa: PLC0415

    mod, params = by_name(network)()
    return extract(prepare(mod, params, host_target()).module).graph


def _schedules(graph: Any, lanes: int) -> dict[str, Any]:
    from tvm_ios.search.baselines import greedy_schedule, sequential_schedule  # noqa: PLC0415
    from tvm_ios.search.ios import search_ios  # noqa: PLC0415
    from tvm_ios_lab.analytical.cpu import CPU  # noqa: PLC0415
    from tvm_ios_lab.analytical.cpu_model import AnalyticalCpuCost  # noqa: PLC0415

    model = AnalyticalCpuCost(CPU.of_cores(lanes))
    found = search_ios(graph, model).schedule
    whole = model.unsplit(graph)
    made = (sequential_schedule(graph), greedy_schedule(graph), found)
    return {name: replace(each, unsplit=whole) for name, each in zip(NAMES, made, strict=True)}


def _modelled(network: str, lanes: int) -> tuple[dict[str, float], dict[str, Any]]:
    from tvm_ios_lab.analytical.cpu import CPU  # noqa: PLC0415
    from tvm_ios_lab.analytical.cpu_model import AnalyticalCpuCost  # noqa: PLC0415

    graph = _graph(network)
    schedules = _schedules(graph, lanes)
    model = AnalyticalCpuCost(CPU.of_cores(lanes))
    ms = {name: sum(model.price(graph, s.stages)) / 1e6 for name, s in schedules.items()}
    return ms, schedules


def _held_against(found: list[Agreement]) -> Table:
    rows = []
    for each in found:
        for name, ms in each.observed_ms.items():
            told = name in each.errors
            rows.append(
                (
                    each.subject,
                    name,
                    f"{ms:.3f}",
                    f"{each.model_ms[name]:.3f}",
                    f"{each.observed[name]:.2f}" if told else "1",
                    f"{each.predicted[name]:.2f}" if told else "1",
                    f"{each.errors[name]:+.0%}" if told else "-",
                )
            )
    header = ("network, lanes", "schedule", "measured ms", "model ms", "measured speedup")
    return Table(header=(*header, "predicted speedup", "error"), rows=tuple(rows))


def _predictions() -> Table:
    rows = []
    for network in NETWORKS:
        for lanes in PREDICTED:
            ms: Mapping[str, float]
            ms, schedules = _modelled(network, lanes)
            rows.append(
                (
                    f"{network}, {lanes} lanes",
                    *(f"{ms[name]:.3f}" for name in NAMES),
                    *(f"{ms[NAMES[0]] / ms[name]:.2f}" for name in NAMES[1:]),
                    str(len(schedules["IOS"].stages)),
                )
            )
    header = ("network, lanes", *(f"{name} ms (prediction)" for name in NAMES))
    return Table(header=(*header, "greedy speedup", "IOS speedup", "IOS stages"), rows=tuple(rows))


if __name__ == "__main__":
    main()
