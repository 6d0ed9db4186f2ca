"""Networks tuned on this machine by turns, interleaved, in lockstep, and all at once.

``python -m tvm_ios_lab.jobs.comparison --trials 2 --seeds 3`` tunes the same networks in each way
of `tvm_ios_lab.jobs.runs`, each time with an empty cache folder. A seed is the order in which the
networks are submitted and the ways take their turns; tuners draw anew each time. For each run:
seconds until all networks are tuned, what cores and device did meanwhile, and how many profiles had
others on their core. For each seed the networks that came out are raced against those of
``sequential``. At last a fixed kernel is timed in pairs (`tvm_ios_lab.jobs.pairs`).

A run, a seed's races and a way's pairs are pieces. What is done lies in
``lab/results/jobs/compared.json``; the same command goes on from there, and ``--pieces 1``
ends after the next one. A table of all that is there is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.timeline import timeline_json
from tvm_ios.measure.comparison import Comparison
from tvm_ios.support.cache_folder import cache_directory
from tvm_ios.support.stored_value import parse_json
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.jobs.pairs import judge, take_pairs
from tvm_ios_lab.jobs.runs import NETWORKS, Way, runs_of
from tvm_ios_lab.jobs.trace import distortion, hardware_use
from tvm_ios_lab.measurement import Measurement, now_text, program_command
from tvm_ios_lab.places import RESULTS

FOLDER = RESULTS / "jobs"
PAIRED = (Way.SLACK, Way.UNSCHEDULED)
_FASTER = re.compile(r"(\w+) \w+ over sequential: ([0-9.]+) times as fast")
Piece = tuple[str, Callable[[], Any]]


def main() -> None:
    """Do the next pieces, and print what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=6, help="AutoTVM's candidates of each task")
    parser.add_argument("--ways", nargs="+", default=[way.value for way in Way])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40, help="of each race")
    parser.add_argument("--leases", type=int, default=8, help="of each way that is timed in pairs")
    parser.add_argument("--pieces", type=int, help="how many to do now; all where omitted")
    parser.add_argument("--out", type=Path, default=FOLDER / "compared.json")
    parser.add_argument("--work", type=Path, default=cache_directory() / "benchmark-jobs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # daemons end as well
    record = _record(options)
    missing = [piece for piece in _pieces(options) if piece[0] not in record["pieces"]]
    for name, take in islice(missing, options.pieces):
        print(f"{name} ...", flush=True)
        record["pieces"][name] = take()
        write_text(options.out, json.dumps(record, indent=1) + "\n")
    print(*table(record["pieces"]), sep="\n")
    left = [name for name, _ in missing if name not in record["pieces"]]
    print(f"left: {', '.join(left) or 'nothing'}")


def _record(options: argparse.Namespace) -> dict[str, Any]:
    """Record of what is done already, or the beginning of it."""
    settings = {name: getattr(options, name) for name in ("trials", "networks", "rounds", "leases")}
    if options.out.exists():
        record: dict[str, Any] = json.loads(options.out.read_text(encoding="utf-8"))
        if "pieces" in record and record["settings"] == settings:
            return record
        raise SystemExit(
            f"{options.out} was made with other settings; move it away, or name another --out"
        )
    taken = Measurement.here(program_command("tvm_ios_lab.jobs.comparison"))
    return {
        **taken.origin(),
        "processor": taken.processor,
        "cores": len(os.sched_getaffinity(0)),
        "settings": settings,
        "pieces": {},
    }


def _pieces(options: argparse.Namespace) -> Iterator[Piece]:
    """Pieces that are to be done, in order; a piece has a name."""
    ways = [Way(name) for name in options.ways]
    for seed in range(options.seeds):
        shuffled = random.Random(seed)
        turns, networks = (shuffled.sample(each, len(each)) for each in (ways, options.networks))
        for way in turns:
            yield run_name(way, seed), partial(_tuned, way, seed, networks, options)
        if Way.SEQUENTIAL in ways:
            yield races_name(seed), partial(_races, ways, seed, options)
    for way in PAIRED:
        if way in ways:
            yield pairs_name(way), partial(_pairs, way, options)


def run_name(way: Way, seed: int) -> str:
    """The piece in which a seed's networks are tuned in a way."""
    return f"{way.value}, seed {seed}"


def races_name(seed: int) -> str:
    """The piece in which what a seed's runs made is raced."""
    return f"races, seed {seed}"


def pairs_name(way: Way) -> str:
    """The piece in which a fixed kernel is timed in pairs."""
    return f"pairs, {way.value}"


def _cache(way: Way, seed: int, options: argparse.Namespace) -> Path:
    found: Path = options.work / f"{way.value}-{seed}"
    return found


def _tuned(
    way: Way, seed: int, networks: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    """Tune the networks in one way."""
    cache = _cache(way, seed, options)
    shutil.rmtree(cache, ignore_errors=True)  # a piece that was cut short begins anew
    runs = runs_of(way, networks, options.trials, cache)
    begin = time.perf_counter()
    with ExitStack() as daemons:
        for daemon in [daemons.enter_context(run.started("run")) for run in runs]:
            if daemon.wait() != 0:
                raise SystemExit(f"{way.value}: tvm-ios jobs run ended with {daemon.returncode}")
    seconds, cores = time.perf_counter() - begin, sorted(os.sched_getaffinity(0))
    spans = [span for run in runs for span in run.spans()]
    if way is Way.SLACK and not seed:
        device = Device(name="cpu0", kind=DeviceKind.CORE, core=cores[-1])
        text = timeline_json(Machine(cores=tuple(cores), devices=(device,)), spans, now_s=0.0)
        write_text(options.out.parent / "slack_timeline.json", text + "\n")
    use = hardware_use(spans, len(cores))
    return {
        "taken_at": now_text(),
        "order": list(networks),
        "seconds": seconds,
        "hardware_s": seconds * len(cores),
        **asdict(use),
        "over_bound": seconds / use.bound_s,
        **asdict(distortion(spans)),
    }


def _races(ways: Sequence[Way], seed: int, options: argparse.Namespace) -> dict[str, list[str]]:
    """Lines of the race of the tuned network of each way, a list a network.

    The folders that they were tuned in are deleted.
    """
    found = {}
    for network in options.networks:
        models = {
            way: run.model(network)
            for way in ways
            for run in runs_of(way, options.networks, options.trials, _cache(way, seed, options))
            if network in run.networks
        }
        base = {Way.SEQUENTIAL: models.pop(Way.SEQUENTIAL)}  # the first is what others are held to
        found[network] = race_lines(raced(base | models, options.rounds))
    for way in ways:
        shutil.rmtree(_cache(way, seed, options))
    return found


def raced(models: Mapping[Way, Path], rounds: int) -> Comparison:
    """Race of compiled models by ``tvm-ios bench``, in a process of its own; names are the ways."""
    words = [*map(str, models.values()), "--rounds", str(rounds), "--json"]
    command = [sys.executable, "-m", "tvm_ios", "bench", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    race = Comparison.from_record(parse_json(done.stdout, "the race").field("compiled"))
    return replace(race, names=tuple(way.value for way in models))


def race_lines(race: Comparison) -> list[str]:
    """Lines of text: medians, speedups over the first contestant, notes, and all rounds."""
    base, *others = race.names
    rounds = (
        " ".join("-" if run_ns is None else f"{run_ns / 1e6:.3f}" for run_ns in row.run_ns)
        + f" ping-pong {row.ping_pong_ns:.0f}{' slow' if row.slow else ''}"
        for row in race.rounds
    )
    return [
        *(f"{name}: {race.median_ns(name) / 1e6:.3f} ms" for name in race.names),
        *(race.speedup(name, over=base).as_text() for name in others),
        *race.notes,
        *rounds,
    ]


def _pairs(way: Way, options: argparse.Namespace) -> dict[str, Any]:
    cache = options.work / f"pairs-{way.value}"
    shutil.rmtree(cache, ignore_errors=True)
    # Enough candidates that nobody is done before the last pair.
    pairs = take_pairs(way, options.networks, 100 * options.trials, cache, options.leases)
    shutil.rmtree(cache)
    return {**judge(pairs), "taken": [asdict(pair) for pair in pairs]}


def table(pieces: Mapping[str, Any]) -> Iterator[str]:
    """Lines of a Markdown table: a way a row, medians over its seeds."""
    yield (
        "| | seeds | seconds | times as fast | over what no order can beat | seconds of hardware | "
        "profiles beside others | tuned networks, times as fast | a fixed kernel's time |"
    )
    yield "|---" * 9 + "|"
    seeds = range(len(pieces))
    for way in Way:
        runs = {seed: pieces[name] for seed in seeds if (name := run_name(way, seed)) in pieces}
        if runs:
            yield f"| `{way.value}` | {' | '.join(_cells(way, runs, pieces))} |"


def _cells(
    way: Way, runs: Mapping[int, Mapping[str, Any]], pieces: Mapping[str, Any]
) -> Iterator[str]:
    profiles = sum(run["profiles"] for run in runs.values())
    distorted = sum(run["distorted"] for run in runs.values())
    paired = pieces.get(pairs_name(way))
    yield f"{len(runs)}"
    yield f"{_median(runs, 'seconds'):.0f}"
    yield _shown(
        pieces[base]["seconds"] / run["seconds"]
        for seed, run in runs.items()
        if (base := run_name(Way.SEQUENTIAL, seed)) in pieces
    )
    yield f"{_median(runs, 'over_bound'):.2f}"
    yield f"{_median(runs, 'hardware_s'):.0f}, {_median(runs, 'core_s'):.0f} of them busy"
    yield f"{distorted / profiles:.0%} of {profiles}"
    races = [pieces[name] for seed in runs if (name := races_name(seed)) in pieces]
    networks = dict.fromkeys(network for race in races for network in race)
    faster = ([x for race in races for x in _faster(way, race[name])] for name in networks)
    yield ", ".join(_shown(ratios) for ratios in faster if ratios)
    yield f"{paired['ratio_of_medians']:.3f} of idle" if paired else ""


def _faster(way: Way, lines: Sequence[str]) -> list[float]:
    """Speedup of a way's network over that of ``sequential``; empty where it did not race."""
    ratios = {Way.SEQUENTIAL.value: "1", **dict(_FASTER.findall("\n".join(lines)))}
    return [float(ratios[way.value])] if way.value in ratios else []


def _shown(ratios: Iterable[float]) -> str:
    found = list(ratios)
    return f"{statistics.median(found):.2f}" if found else ""


def _median(runs: Mapping[int, Mapping[str, Any]], name: str) -> float:
    return statistics.median(float(run[name]) for run in runs.values())


if __name__ == "__main__":
    main()
