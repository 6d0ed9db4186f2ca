"""Regret of ``tune``: how much slower its answers are than the best of several equal calls.

``python -m tvm_ios_lab.scripts.regret NETWORK… --calls 10`` tunes each network as often, each time
from an empty cache in a process of its own, and keeps the exported files in ``--files``. With
``--burner`` another process burns one core in bursts meanwhile. Then all files of a network, those
of earlier runs included, race against each other; that wants an idle machine. ``--calls 0`` races
only. The regret of a file is by how much longer it takes than the fastest of them, the median over
interleaved rounds. ``--config`` takes options of ``tune`` from a file. The table goes to standard
output, raw rounds go to ``lab/results/regret/``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import mean, median
from typing import Any

from tvm_ios.driver.races.compiled_race import race_files
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.report.table import Table
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS, ROOT, python_path

FOLDER = RESULTS / "regret"
NETWORKS = ("nasnet_small", "randwire_small", "squeezenet", "mobilenet_v3_large")
IDLE, BURNER = "idle", "burner"
HEADER = ("network", "machine", "calls", "worst %", "mean %", "kept", "outcomes", "mean s")
CALL = """
import json, sys, time
import tvm_ios
from tvm_ios.driver.config import TuneConfig
from tvm_ios.models import by_name

name, file, *configs = sys.argv[1:]
config = TuneConfig.load(configs[0]) if configs else TuneConfig()
begin = time.perf_counter()
model = tvm_ios.tune(*by_name(name)(), **config.arguments())
seconds = time.perf_counter() - begin
model.export_library(file)
print(json.dumps({"network": name, "seconds": seconds, **json.loads(model.report().to_json())}))
"""
"""Program that tunes a network, exports the model and prints the report of ``tune`` as JSON."""
KEPT = ("network", "seconds", "kept", "outcome", "reason", "phase_s", "notes", "comparison")
"""Fields of a report that are kept beside the file."""
BURN = """
import os, random, time

parent, bursts = os.getppid(), random.Random(0)
while os.getppid() == parent:
    end = time.monotonic() + bursts.expovariate(1 / 0.3)
    while time.monotonic() < end:
        pass
    time.sleep(bursts.expovariate(1 / 0.3))
"""
"""Burns one core in bursts of 0.3 s on the average, with pauses as long, until its parent ends."""


def main() -> None:
    """Tune, race, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--calls", type=int, default=10, help="calls of each network")
    parser.add_argument("--burner", action="store_true", help="burn one core during the calls")
    parser.add_argument("--files", type=Path, default=Path("build/regret"), metavar="FOLDER")
    parser.add_argument("--config", type=Path, help="a file with options")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of the races")
    arguments = parser.parse_args()
    arguments.files.mkdir(parents=True, exist_ok=True)
    with burner() if arguments.burner else nullcontext():
        for number in range(arguments.calls):
            for network in arguments.networks:
                _tune(network, arguments, number)
    rows = []
    for network in arguments.networks:
        files = {path.stem: path for path in sorted(arguments.files.glob(f"{network}.*.so"))}
        if len(files) > 1:
            raced = race_files(files, CompareOptions(rounds=arguments.rounds))
            calls = {name: json.loads(_facts(path).read_text()) for name, path in files.items()}
            _store(network, raced, calls)
            rows += regret_rows(network, raced, calls)
    print(Table(header=HEADER, rows=tuple(rows)).as_markdown())


@contextmanager
def burner() -> Iterator[subprocess.Popen[bytes]]:
    """Context in which another process burns one core in bursts."""
    with subprocess.Popen([sys.executable, "-c", BURN]) as process:
        try:
            yield process
        finally:
            process.kill()


def regrets(raced: Comparison) -> dict[str, float]:
    """Regret of each contestant: its time over that of the fastest one, less 1."""
    best = raced.fastest()
    return {
        name: max(0.0, median(raced.ratios(best, over=name)) - 1) if name != best else 0.0
        for name in raced.names
    }


def regret_rows(
    network: str, raced: Comparison, calls: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, ...]]:
    """Row of the table for each state of the machine in which files were made."""
    found = regrets(raced)
    rows: list[tuple[str, ...]] = []
    for machine in (IDLE, BURNER):
        made = {name: calls[name] for name in found if name.split(".")[1] == machine}
        if not made:
            continue
        percent = [100 * found[name] for name in made]
        rows.append(
            (
                network,
                machine,
                str(len(made)),
                f"{max(percent):.1f}",
                f"{mean(percent):.1f}",
                _counted(str(each["kept"]) for each in made.values()),
                _counted(str(each["outcome"]) for each in made.values()),
                f"{mean(each['seconds'] for each in made.values()):.1f}",
            )
        )
    return rows


def _counted(names: Iterator[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(Counter(names).items()))


def _tune(network: str, arguments: argparse.Namespace, number: int) -> None:
    machine = BURNER if arguments.burner else IDLE
    path = arguments.files.resolve() / f"{network}.{machine}.{number}.so"
    config = [] if arguments.config is None else [str(arguments.config.resolve())]
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", CALL, network, str(path), *config],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": python_path(), "TVM_IOS_CACHE_DIR": cache, "TVM_IOS_KEPT_MIB": "0"}
            | {"TVM_NUM_THREADS": str(len(os.sched_getaffinity(0)))},
        )
    told = json.loads(done.stdout.splitlines()[-1])
    _facts(path).write_text(json.dumps({name: told[name] for name in KEPT}, indent=1) + "\n")
    print(
        f"{path.stem}: {told['seconds']:.1f} s, kept {told['kept']}: {told['reason']}", flush=True
    )


def _facts(path: Path) -> Path:
    """Path of the facts about a file's call."""
    return path.with_suffix(".json")


def _store(network: str, raced: Comparison, calls: Mapping[str, Mapping[str, Any]]) -> None:
    record = {
        **Measurement.here(program_command("tvm_ios_lab.scripts.regret")).origin(),
        "network": network,
        "regret": regrets(raced),
        "calls": dict(calls),
        "race": raced.as_record(),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1) + "\n"
    (FOLDER / f"{network}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
