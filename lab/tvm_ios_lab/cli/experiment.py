"""``tvm-ios experiment``: the experiments of the IOS paper, each by one command."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.cli.interrupts import told_interrupts
from tvm_ios.errors import OptionError, TvmIosError
from tvm_ios.host.processor import default_lanes
from tvm_ios.jobs.ledger import CellStep
from tvm_ios.runtime.base.lane_pool import require_lanes
from tvm_ios.support.messages import is_quiet
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios_lab.harness.cell_record import CellRecord
from tvm_ios_lab.harness.ledger import Status
from tvm_ios_lab.harness.protocol import Bench, Experiment, Settings, cell_title
from tvm_ios_lab.harness.run import ExperimentRun, forget_cells, run_experiment
from tvm_ios_lab.papers.registry import EXPERIMENTS, by_name

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

LIST, ALL = "list", "all"
TIME_BUDGET_S = 240.0


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb, and what it can do."""
    parser = subparsers.add_parser(
        "experiment",
        description="Run an experiment of the IOS paper: raw samples as JSON, a table in "
        "Markdown, a figure, and the published numbers beside ours. Cells that are measured "
        "already are kept, so that an interrupted run goes on. Exit status 1 if a cell failed, or "
        f"one of {ALL} experiments did.",
    )
    names = [each.name for each in EXPERIMENTS]
    name = parser.add_argument(
        "name", metavar="NAME", help=f"{LIST}, {ALL}, or one of: " + ", ".join(names)
    )
    name.completer = lambda **_: [LIST, ALL, *names]  # type: ignore[attr-defined]
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
        help="search kernels where a committed log has them otherwise (hours); goes on from its "
        "own log",
    )
    parser.add_argument(
        "--peers-python",
        type=Path,
        metavar="FILE",
        help="interpreter of the environment of other frameworks (lab/tvm_ios_lab/peers/setup.sh)",
    )
    parser.add_argument("--lanes", type=int, help="threads (default: the cores there are)")
    parser.add_argument(
        "--time-budget",
        type=float,
        default=TIME_BUDGET_S,
        metavar="SECONDS",
        help="to build and search the network of a measured cell (default: %(default)s)",
    )
    parser.add_argument(
        "--database", type=Path, metavar="FILE", help="profile database (default: in the cache)"
    )


@told_interrupts()
def run(arguments: argparse.Namespace) -> int:
    """Run what was asked for; 1 if a cell failed, or one of several experiments."""
    if arguments.name == LIST:
        print(_listed(as_json=arguments.json))
        return 0
    chosen = EXPERIMENTS if arguments.name == ALL else (by_name(arguments.name),)
    lanes = _checked(arguments)
    # TVM makes its thread pool once, when a measured cell loads it.
    os.environ.setdefault("TVM_NUM_THREADS", str(lanes))
    settings = Settings(
        lanes=lanes,
        quick=arguments.quick,
        tune=arguments.tune,
        peers=arguments.peers_python is not None,
    )
    runs: list[ExperimentRun] = []
    errors: dict[str, str] = {}

    def attempt(step: Callable[[Experiment[Any, Any]], None]) -> None:
        """Take a step with each experiment that has not failed; of several, each by itself."""
        for each in chosen:
            try:
                if each.name not in errors:
                    step(each)
            except TvmIosError as error:
                if arguments.name != ALL or arguments.debug:
                    raise
                errors[each.name] = f"tvm-ios: error: {each.name}: {error}"

    if arguments.fresh:  # of all at once: what goes on after an interruption finds new ones only
        attempt(lambda each: forget_cells(each, settings, arguments.output))
    attempt(lambda each: runs.append(_run(each, arguments, settings)))
    if arguments.json:
        print(json.dumps([each.as_record() for each in runs], indent=1))
    print(*errors.values(), sep="\n", end="\n" * bool(errors), file=sys.stderr)
    return 1 if errors or any(each.failed for each in runs) else 0


def _checked(arguments: argparse.Namespace) -> int:
    """Refuse what no cell could be measured with, and make paths absolute; return the lanes.

    Programs that race other frameworks run in another folder. Links are kept, since one of an
    interpreter is what an environment begins with.
    """
    TimeBudget(arguments.time_budget)
    if math.isinf(arguments.time_budget):  # neither a record nor a program's time limit can say it
        raise OptionError("time_budget is inf; give seconds that end")
    arguments.output = arguments.output.absolute()
    if arguments.peers_python is not None:
        arguments.peers_python = arguments.peers_python.absolute()
        if not (arguments.peers_python.is_file() and os.access(arguments.peers_python, os.X_OK)):
            raise OptionError(
                f"--peers-python is {arguments.peers_python}, and no such interpreter is there; "
                "make one by lab/tvm_ios_lab/peers/setup.sh FOLDER and give FOLDER/bin/python"
            )
    cores = default_lanes()
    given = cores if arguments.lanes is None else arguments.lanes
    return require_lanes(given, cores, "this process may use")


def _run(
    experiment: Experiment[Any, Any], arguments: argparse.Namespace, settings: Settings
) -> ExperimentRun:
    with StderrProgress() as progress:
        done = run_experiment(
            experiment,
            settings,
            Bench(
                folder=arguments.output,
                database=arguments.database,
                time_budget=arguments.time_budget,
                progress=progress,
                peers_python=arguments.peers_python,
            ),
            command=" ".join(_words(experiment.name, arguments, peers_python="FILE")),
            go_on=_go_on(arguments),
            retry=arguments.retry,
            listener=partial(_tell, time_budget_s=arguments.time_budget),
        )
    if not arguments.json:
        print(done.as_text(), *(f"wrote {path}" for path in done.files), "", sep="\n", flush=True)
    return done


def _words(name: str, arguments: argparse.Namespace, *, peers_python: str) -> list[str]:
    """Words of the command that makes the same on another machine."""
    words = ["tvm-ios", "experiment", name]
    words += [f"--{flag}" for flag in ("quick", "tune") if getattr(arguments, flag)]
    if arguments.lanes is not None:
        words += ["--lanes", str(arguments.lanes)]
    if arguments.peers_python is not None:
        words += ["--peers-python", peers_python]
    if arguments.time_budget != TIME_BUDGET_S:
        words += ["--time-budget", f"{arguments.time_budget:g}"]
    return words


def _go_on(arguments: argparse.Namespace) -> str:
    """Command that goes on here after an interruption."""
    words = _words(arguments.name, arguments, peers_python=str(arguments.peers_python))
    words += ["--output", str(arguments.output)]
    if arguments.database is not None:
        words += ["--database", str(arguments.database)]
    words += [f"--{flag}" for flag in ("retry", "json") if getattr(arguments, flag)]
    return shlex.join(words)


def _listed(*, as_json: bool) -> str:
    if as_json:
        rows = [{"name": each.name, "title": each.title} for each in EXPERIMENTS]
        return json.dumps(rows, indent=1)
    width = max(len(each.name) for each in EXPERIMENTS)
    return "\n".join(f"{each.name:<{width}}  {each.title}" for each in EXPERIMENTS)


def _tell(step: CellStep[Any, CellRecord], *, time_budget_s: float) -> None:
    """A line when a cell begins, and one when it is over; standard output is for the answer."""
    if is_quiet():
        return
    say = partial(print, file=sys.stderr, flush=True)
    title = f"[{step.number}/{step.cells}] {cell_title(step.cell)}"
    if step.result is None:
        say(f"{title} ...")
        return
    known = "" if step.is_new else " (known)"
    had_s = step.result.time_budget_s
    if known and had_s is not None and had_s < time_budget_s:
        known = f" (known, built within {had_s:g} s; --fresh measures it again)"
    failed = step.result.status is Status.FAILED
    end = f", failed: {step.result.message}" if failed else ""
    say(f"{title}: {step.result.seconds:.1f} s{end}{known}")
