"""Compares how long ``tune`` takes in two checkouts: cold, warm, and on a related network.

``python -m tvm_ios_lab.scripts.tune_time --before FOLDER NETWORK… --rounds 3`` runs each network in
processes of their own, the checkouts by turns, each with a cache folder of its own that begins
empty in every round. ``cold`` is the first call; ``warm`` is the same call again, with all prices
and kernels known. With ``--related OTHER`` a third call tunes a network that has some kernels in
common. A network is a name, with settings behind a colon: ``nasnet_small:num_cells=6``. Times are
those of the call, without starting Python. ``--config`` takes the options from a file, as
``tvm-ios tune`` does. With ``--always-slow`` every look at the machine finds its slow mode, so that
all patience is spent. Raw rounds go to ``lab/results/tune_time/``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS, ROOT

FOLDER = RESULTS / "tune_time"
Call: TypeAlias = dict[str, Any]
"""Measurements of one call of ``tune``, as its process prints them."""
ALWAYS_SLOW = """
from tvm_ios.measure.machine_mode import ModeWatch

def slow(watch, look=ModeWatch.look):
    look(watch)
    watch.slow = watch.last_ns > 0
    return watch.slow

ModeWatch.look = slow
"""
"""Run before the call; where there is one lane, nothing is slow as ever."""
CALL = """
import json, sys, time
import tvm_ios
from tvm_ios.driver.config import TuneConfig
from tvm_ios.models import by_name
name, _, settings = sys.argv[1].partition(":")
given = dict(each.split("=") for each in settings.split(",") if each)
mod, params = by_name(name)(**{key: int(value) for key, value in given.items()})
config = TuneConfig.load(sys.argv[2]) if sys.argv[2:] else TuneConfig()
begin = time.perf_counter()
report = tvm_ios.tune(
    mod,
    params,
    **config.arguments(),
).report()
print(json.dumps({
    "seconds": time.perf_counter() - begin,
    "phase_s": report.phase_s,
    "race": {name: report.comparison.median_ns(name) for name in report.comparison.names},
    "kept": report.kept.value,
    "measured": report.measured,
    "from_database": report.from_database,
}))
"""


def main() -> None:
    """Time, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--before", type=Path, required=True, help="a checkout to compare with")
    parser.add_argument("--related", help="a network tuned after each of the networks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--config", type=Path, help="a file with options")
    parser.add_argument("--always-slow", action="store_true", help="as if in the slow mode")
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before.resolve(), "after": ROOT}
    program = ALWAYS_SLOW + CALL if arguments.always_slow else CALL
    mode = "_always_slow" if arguments.always_slow else ""
    mode += f"_{arguments.config.stem}" if arguments.config else ""
    given = [str(arguments.config.resolve())] if arguments.config else []
    FOLDER.mkdir(parents=True, exist_ok=True)
    for network in arguments.networks:
        steps = {"cold": network, "warm": network}
        if arguments.related is not None:
            steps["related"] = arguments.related
        rounds = [
            _round(
                checkouts if number % 2 == 0 else dict(reversed(checkouts.items())),
                steps,
                (program, given),
            )
            for number in range(arguments.rounds)
        ]
        ratios = {step: [_ratio(found, step) for found in rounds] for step in steps}
        for step, values in ratios.items():
            print(
                f"{network} {step}: {median(values):.2f} times as fast "
                f"({min(values):.2f} to {max(values):.2f} in {len(values)} rounds)",
                flush=True,
            )
        taken = Measurement.here(program_command("tvm_ios_lab.scripts.tune_time"))
        record = {
            **taken.origin(),
            "commits": {name: _commit(folder) for name, folder in checkouts.items()},
            "processor": taken.processor,
            "cores": len(os.sched_getaffinity(0)),
            "related": arguments.related,
            "times_as_fast": ratios,
            "rounds": rounds,
        }
        path = FOLDER / f"{network.partition(':')[0]}{mode}.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _round(
    checkouts: dict[str, Path], steps: dict[str, str], call: tuple[str, list[str]]
) -> dict[str, dict[str, Call]]:
    """Every step in every checkout, step by step, so that what is compared is close in time."""
    with tempfile.TemporaryDirectory() as caches:
        found: dict[str, dict[str, Call]] = {name: {} for name in checkouts}
        for step, network in steps.items():
            for name, folder in checkouts.items():
                found[name][step] = _call(call, network, folder, Path(caches) / name)
                print(f"  {name} {step}: {found[name][step]['seconds']:.1f} s", flush=True)
    return found


def _call(call: tuple[str, list[str]], network: str, checkout: Path, cache: Path) -> Call:
    program, given = call
    cores = str(len(os.sched_getaffinity(0)))
    done = subprocess.run(
        [sys.executable, "-c", program, network, *given],
        capture_output=True,
        text=True,
        check=True,
        cwd=checkout,
        env=os.environ
        | {"PYTHONPATH": str(checkout), "TVM_IOS_CACHE_DIR": str(cache), "TVM_NUM_THREADS": cores}
        | {"TVM_IOS_KEPT_MIB": "0"},  # what calls take that are not equal
    )
    found: Call = json.loads(done.stdout.splitlines()[-1])
    return found


def _ratio(found: dict[str, dict[str, Call]], step: str) -> float:
    return float(found["before"][step]["seconds"] / found["after"][step]["seconds"])


def _commit(folder: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
