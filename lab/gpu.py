"""The whole GPU evaluation, by one command; call it until it says that all is done.

    python lab/gpu.py --output out/gpu

Works offline, keeps everything in the output folder, stops before its budget is spent, and goes on
from there when called again. ``docs/gpu.md`` says what it measures and what lies where.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tvm_ios.errors import TvmIosError
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.gpu.evaluation import run_steps
from tvm_ios_lab.gpu.jobs import child_environment
from tvm_ios_lab.gpu.ledger import Ledger
from tvm_ios_lab.gpu.settings import NETWORKS, Settings
from tvm_ios_lab.gpu.table import report
from tvm_ios_lab.gpu.torch_process import python_with_torch
from tvm_ios_lab.harness.ledger import Status
from tvm_ios_lab.places import ROOT

_TABLE_S = 5.0
"""Seconds of the budget for the table at the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Go on with the evaluation: 0 when all is settled, 3 when another call is needed."""
    begin = time.monotonic()
    options = _parser().parse_args(arguments)
    folder: Path = options.output.resolve()
    # A time limit of whoever started us ends the call like Ctrl-C: the table is still printed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        status = _find_machine(folder)
        if status:
            return status
        settings = _settings(options)
        settings.write(folder)
        _forget(folder, settings, failed=options.retry_failed)
        left_s = options.budget_s - _TABLE_S - (time.monotonic() - begin)
        interrupted = False
        try:
            run_steps(settings.steps, folder, budget_s=left_s, say=_say)
        except KeyboardInterrupt:
            interrupted = True
        text = report(folder, settings)
        write_text(folder / "README.md", text)
        print(text)
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if interrupted:
        return 130
    return _settled(folder, settings)


def _find_machine(folder: Path) -> int:
    """Look for a GPU, in a process that lets go of it."""
    command = [sys.executable, "-m", "tvm_ios_lab.gpu.machine", str(folder)]
    return subprocess.run(command, cwd=ROOT, env=child_environment({}), check=False).returncode


def _settings(options: argparse.Namespace) -> Settings:
    python = None
    if options.torch_python != "none":
        given = () if options.torch_python is None else (options.torch_python,)
        python = python_with_torch(given or (sys.executable, "python3"))
    if python is None:
        _say("PyTorch takes no part: no interpreter has it with a GPU; see --torch-python")
    return Settings(
        networks=tuple(options.networks),
        batch_sizes=tuple(options.batch_sizes),
        rounds=options.rounds,
        streams=options.streams,
        tune_s=options.tune_s,
        records=None if options.records is None else str(options.records.resolve()),
        torch_python=python,
        compile_s=options.compile_s,
        quick=options.quick,
        proof=not options.no_proof,
    )


def _forget(folder: Path, settings: Settings, *, failed: bool) -> None:
    ledger = Ledger(folder)
    for step in settings.steps:
        outcome = ledger.outcome(step.name)
        if failed and outcome is not None and outcome.status in (Status.FAILED, Status.SKIPPED):
            ledger.forget(step.name)
    ledger.forget_gone(settings.steps)


def _settled(folder: Path, settings: Settings) -> int:
    ledger = Ledger(folder)
    lost = ledger.lost(settings.steps)
    left = [step.name for step in settings.steps if step.name not in lost]
    if all(map(ledger.is_settled, left)):
        print("All is done that can be.")
        return 0
    print("Not all is done: call again with the same --output.")
    return 3


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python lab/gpu.py",
        description="Evaluate tvm-ios on the GPU of this machine: outputs against float64, then "
        "every schedule on every kind of kernels, next to TVM and PyTorch. Exit status 0 when all "
        "is done, 3 when the budget was spent and another call goes on, 2 for errors.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--output", type=Path, required=True, help="the folder everything goes into")
    add("--networks", nargs="+", default=list(NETWORKS), metavar="NAME", help="which of them")
    add(
        "--batch-sizes",
        nargs="+",
        type=int,
        default=[1, 16, 32, 64, 128],
        metavar="N",
        help="all networks run at 1, inception_v3 at the others as well",
    )
    add("--budget-s", type=float, default=540.0, help="seconds this call may take")
    add("--rounds", type=int, default=20, help="interleaved rounds")
    add("--streams", type=int, default=8, help="most streams of a schedule")
    add("--tune-s", type=float, default=120.0, help="seconds of tuning for each network, in all")
    add("--records", type=Path, help="folder of AutoTVM logs, NETWORK.autotvm.log, tuned before")
    add("--torch-python", help="interpreter that has PyTorch; 'none' leaves it out")
    add("--compile-s", type=float, default=180.0, help="seconds of max-autotune for each network")
    add("--retry-failed", action="store_true", help="do failed and skipped steps again")
    add("--no-proof", action="store_true", help="measure without comparing outputs to float64")
    add("--quick", action="store_true", help="smallest networks, few rounds: to see that it runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
