"""``tvm-ios experiment``: the experiments of the IOS paper, each by one command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.experiments.harness.cell_record import CellRecord
from tvm_ios.experiments.harness.protocol import Bench, Experiment, Settings, cell_title
from tvm_ios.experiments.harness.run import ExperimentRun, run_experiment
from tvm_ios.experiments.ledger import CellStatus, CellStep
from tvm_ios.experiments.papers.registry import EXPERIMENTS, by_name
from tvm_ios.host.processor import default_lanes
from tvm_ios.support.messages import is_quiet
from tvm_ios.support.terminal import StderrProgress

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

LIST, ALL = "list", "all"


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb, and what it can do."""
    parser = subparsers.add_parser(
        "experiment",
        description="Run an experiment of the IOS paper: raw samples as JSON, a table in "
        "Markdown, a figure, and the published numbers beside ours. Cells that are measured "
        "already are kept, so that an interrupted run goes on. Exit status 1 if a cell failed.",
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help=f"{LIST}, {ALL}, or one of: " + ", ".join(each.name for each in EXPERIMENTS),
    )
    parser.add_argument(
        "--quick", action="store_true", help="small networks and few rounds, where measured"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/experiments"),
        metavar="FOLDER",
        help="where records, tables and figures go (default: %(default)s)",
    )
    parser.add_argument("--fresh", action="store_true", help="measure all cells again")
    parser.add_argument("--retry", action="store_true", help="measure failed cells again")
    parser.add_argument(
        "--tune",
        action="store_true",
        help="search kernels from nothing, where a committed log has them otherwise (hours)",
    )
    parser.add_argument(
        "--peers-python",
        type=Path,
        metavar="FILE",
        help="interpreter of the environment of other frameworks (benchmarks/peers/setup.sh)",
    )
    parser.add_argument("--lanes", type=int, help="threads (default: the cores there are)")
    parser.add_argument(
        "--time-budget",
        type=float,
        default=240.0,
        metavar="SECONDS",
        help="to build and search the network of a measured cell (default: %(default)s)",
    )
    parser.add_argument(
        "--database", type=Path, metavar="FILE", help="profile database (default: in the cache)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run what was asked for; 1 if a cell failed."""
    if arguments.name == LIST:
        print(_listed(as_json=arguments.json))
        return 0
    chosen = EXPERIMENTS if arguments.name == ALL else (by_name(arguments.name),)
    lanes = default_lanes() if arguments.lanes is None else arguments.lanes
    # TVM makes its thread pool once, when a measured cell loads it.
    os.environ.setdefault("TVM_NUM_THREADS", str(lanes))
    runs = [_run(experiment, arguments, lanes) for experiment in chosen]
    if arguments.json:
        print(json.dumps([each.as_record() for each in runs], indent=1))
    return 1 if any(each.failed for each in runs) else 0


def _run(
    experiment: Experiment[Any, Any], arguments: argparse.Namespace, lanes: int
) -> ExperimentRun:
    with StderrProgress() as progress:
        done = run_experiment(
            experiment,
            Settings(lanes=lanes, quick=arguments.quick, tune=arguments.tune),
            Bench(
                folder=arguments.output,
                database=arguments.database,
                time_budget=arguments.time_budget,
                progress=progress,
                peers_python=arguments.peers_python,
            ),
            command=_command(experiment, arguments),
            fresh=arguments.fresh,
            retry=arguments.retry,
            listener=_tell,
        )
    if not arguments.json:
        print(done.as_text(), *(f"wrote {path}" for path in done.files), "", sep="\n", flush=True)
    return done


def _command(experiment: Experiment[Any, Any], arguments: argparse.Namespace) -> str:
    """What makes the same, and what goes on after an interruption."""
    words = ["tvm-ios experiment", experiment.name]
    words += ["--quick"] if arguments.quick else []
    words += ["--tune"] if arguments.tune else []
    words += [] if arguments.lanes is None else [f"--lanes {arguments.lanes}"]
    return " ".join(words)


def _listed(*, as_json: bool) -> str:
    if as_json:
        rows = [{"name": each.name, "title": each.title} for each in EXPERIMENTS]
        return json.dumps(rows, indent=1)
    width = max(len(each.name) for each in EXPERIMENTS)
    return "\n".join(f"{each.name:<{width}}  {each.title}" for each in EXPERIMENTS)


def _tell(step: CellStep[Any, CellRecord]) -> None:
    """A line when a cell begins, and one when it is over; standard output is for the answer."""
    if is_quiet():
        return
    say = partial(print, file=sys.stderr, flush=True)
    title = f"[{step.number}/{step.cells}] {cell_title(step.cell)}"
    if step.result is None:
        say(f"{title} ...")
        return
    known = "" if step.is_new else " (known)"
    failed = step.result.status is CellStatus.FAILED
    end = f", failed: {step.result.message}" if failed else ""
    say(f"{title}: {step.result.seconds:.1f} s{end}{known}")
