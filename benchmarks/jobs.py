"""Four networks tuned on this machine by turns, interleaved, in lockstep, and all at once.

``python -m benchmarks.jobs --trials 6`` tunes the same four networks in each way, each way with an
empty cache folder: ``sequential``, ``lockstep`` and ``slack`` are policies of ``tvm-ios jobs``;
``unscheduled`` starts a ``tvm-ios jobs run`` for each network at the same time, none of which
knows of the others. What each way took, what cores and device did meanwhile, and the networks
that came out, raced against those of ``sequential``, go to ``benchmarks/results/jobs/tuned.json``;
the timeline of ``slack`` lies beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tvm_ios.host import processor_name

FOLDER = Path(__file__).resolve().parent / "results" / "jobs"
NETWORKS = {
    "squeezenet": "autotvm",
    "nasnet_small": "auto_scheduler",
    "nasnet_small_c44": "autotvm",
    "randwire_small": "autotvm",
}
ANSOR_TRIALS = 8
"""Candidates of Ansor for one of AutoTVM: it counts those of all tasks, the other one's of each."""
POLICIES = ("sequential", "slack", "lockstep")
UNSCHEDULED = "unscheduled"


def main() -> None:
    """Tune in each way, race what came out, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=6, help="AutoTVM's candidates of each task")
    parser.add_argument("--ways", nargs="+", default=[*POLICIES, UNSCHEDULED])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        caches = {way: Path(name) / way for way in options.ways}
        found = {
            way: _tuned(way, options.networks, options.trials, cache)
            for way, cache in caches.items()
        }
        races = {
            network: _race(network, caches, options.rounds)
            for network in options.networks
            if "sequential" in caches
        }
    record = {
        "command": shlex.join(("python", "-m", "benchmarks.jobs", *sys.argv[1:])),
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "taken_at": time.strftime("%Y-%m-%d"),
        "trials": options.trials,
        "ways": found,
        "races": races,
    }
    (FOLDER / "tuned.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _tuned(way: str, networks: Sequence[str], trials: int, cache: Path) -> dict[str, Any]:
    """Tune the networks in one way."""
    cache.mkdir()
    policy = way if way != UNSCHEDULED else "fifo"
    groups = [[network] for network in networks] if way == UNSCHEDULED else [list(networks)]
    begin = time.perf_counter()
    runs = []
    for group in groups:
        folder = cache / group[0] if way == UNSCHEDULED else cache
        folder.mkdir(exist_ok=True)
        file = folder / "jobs.toml"
        file.write_text(_jobs_file(policy, group, trials), encoding="utf-8")
        runs.append(_started(["run", str(file)], folder))
    for run in runs:
        if run.wait() != 0:
            raise SystemExit(f"{way}: tvm-ios jobs run ended with status {run.returncode}")
    found: dict[str, Any] = {"seconds": time.perf_counter() - begin}
    if way != UNSCHEDULED:
        timeline = cache / "timeline.json"
        _started(["trace", str(timeline)], cache).wait()
        found |= _busy(json.loads(timeline.read_text(encoding="utf-8")), found["seconds"])
        if way == "slack":
            (FOLDER / "slack_timeline.json").write_bytes(timeline.read_bytes())
    print(way, {key: value for key, value in found.items() if key != "jobs_s"}, flush=True)
    return found


def _jobs_file(policy: str, networks: Sequence[str], trials: int) -> str:
    last = max(os.sched_getaffinity(0))
    lines = ["[scheduler]", f'policy = "{policy}"', "max_active = 4"]
    lines += ["[[device]]", 'name = "cpu0"', 'kind = "core"', f"core = {last}"]
    for network in networks:
        backend = NETWORKS.get(network, "autotvm")
        count = trials if backend == "autotvm" else trials * ANSOR_TRIALS
        lines += ["[[job]]", f'model = "{network}"', "[job.tuning]", f'backend = "{backend}"']
        lines += [f"trials = {count}", "repeat = 3", "min_repeat_ms = 10"]
    return "\n".join(lines) + "\n"


def _started(words: Sequence[str], cache: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tvm_ios", "jobs", *words],
        env=os.environ | {"TVM_IOS_CACHE_DIR": str(cache)},
        stdout=subprocess.DEVNULL,
    )


def _busy(timeline: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What cores and devices did, from a timeline, and what no order could beat."""
    events = timeline["traceEvents"]
    rows = {
        each["pid"]: each["args"]["name"]
        for each in events
        if each["ph"] == "M" and each["name"] == "process_name"
    }
    spans = [each for each in events if each["ph"] == "X"]
    # A core that two stages share is counted once for each: by rows they overlap.
    core_s = sum(_covered(spans, rows, "cores"))
    device_s = sum(_covered(spans, rows, "devices"))
    cores = len(os.sched_getaffinity(0))
    return {
        "core_seconds": core_s,
        "device_seconds": device_s,
        "bound_s": max(core_s / cores, device_s),
        "over_bound": seconds / max(core_s / cores, device_s),
    }


def _covered(
    spans: Sequence[Mapping[str, Any]], rows: Mapping[int, str], process: str
) -> list[float]:
    """Seconds in which each row of a process has any stage."""
    found = []
    mine = [each for each in spans if rows.get(each["pid"]) == process]
    for row in sorted({each["tid"] for each in mine}):
        edges = sorted(
            edge
            for each in mine
            if each["tid"] == row
            for edge in ((each["ts"], 1), (each["ts"] + each["dur"], -1))
        )
        depth, total_us = 0, 0.0
        for (at_us, step), (next_us, _) in pairwise(edges):
            depth += step
            total_us += (next_us - at_us) * (depth > 0)
        found.append(total_us / 1e6)
    return found


def _race(network: str, caches: Mapping[str, Path], rounds: int) -> list[str]:
    """The tuned network of each way, raced: lines of ``benchmarks.race_files``."""
    files = {
        way: (cache / network if way == UNSCHEDULED else cache) / "jobs/work" / network / "run"
        for way, cache in caches.items()
    }
    words = [f"{way}={file.resolve() / 'model.so'}" for way, file in files.items()]
    out = caches["sequential"] / f"{network}.txt"
    command = [sys.executable, "-m", "benchmarks.race_files", *words]
    subprocess.run(
        [*command, "--rounds", str(rounds), "--out", str(out)], check=True, stdout=sys.stderr
    )
    return out.read_text(encoding="utf-8").splitlines()[1:]


if __name__ == "__main__":
    main()
