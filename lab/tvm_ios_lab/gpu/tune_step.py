"""Tuning kernels with AutoTVM, a while in each call, until the time a network gets is spent."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from tvm_ios.errors import TuningError
from tvm_ios.support.whole_file import write_text
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.tuned_kernels import merged_modules
from tvm_ios_lab.gpu.agenda import Kernels, Step
from tvm_ios_lab.gpu.device_code import kept_device_code
from tvm_ios_lab.gpu.workplace import SkippedError, UnfinishedError, Workplace

__all__ = ["tune"]

_PASSES = (8, 16, 32, 64, 128, 256, 512)
"""Candidates of each task, pass by pass, so that no task goes without."""
_MARGIN_S = 15.0
"""Seconds at the end of the call for what is begun when the time is up."""


def tune(place: Workplace, step: Step) -> dict[str, Any]:
    """Measure candidates until the time is up; records that were given are taken as they are."""
    place.begin_log(step.case)
    log, spent = place.log(step.case), place.folder / "records" / f"{step.case.name}.seconds"
    before_s = float(spent.read_text()) if spent.exists() else 0.0
    if place.settings.given_log(step.case) is not None:
        return {"records": str(place.settings.given_log(step.case)), "seconds": 0.0}
    if shutil.which("nvcc") is None:
        raise SkippedError("AutoTVM compiles candidates by nvcc, which was not found")
    begin = time.monotonic()
    wanted_s = place.settings.tune_s - before_s
    text, whole = "", wanted_s <= 0
    if not whole:
        seconds = min(wanted_s, place.left_s - _MARGIN_S)
        text, whole = _passes(place, step, seconds)
        whole = whole or seconds == wanted_s
    seconds = before_s + time.monotonic() - begin
    write_text(spent, f"{seconds}\n")
    if not whole:
        raise UnfinishedError(f"{seconds:.0f} of {place.settings.tune_s:.0f} s of tuning are spent")
    tried, ran = _candidates(log)
    if not ran:
        raise SkippedError(f"none of {tried} candidates ran; {log} says what each failed of")
    return {"seconds": seconds, "outcome": text}


def _passes(place: Workplace, step: Step, seconds: float) -> tuple[str, bool]:
    """Report of the tuning, and whether there is nothing more to try."""
    end = time.monotonic() + seconds
    module, params = place.network(step.case)
    # Not around the tuning: candidates are compiled once, and need not be kept.
    with kept_device_code(place.device_code), place.built(step.case, Kernels.UNTUNED) as built:
        backend = AutoTvmBackend(extra_modules=merged_modules(built.extraction))
        target = built.prepared.target
    text = ""
    for trials in _PASSES:
        left_s = end - time.monotonic()
        if left_s <= 0:
            return text, False
        options = TuningOptions(trials=trials, time_budget_s=left_s)
        try:
            outcome = backend.tune(module, params, target, place.log(step.case), options, _say)
        except TuningError as error:
            raise SkippedError(str(error)) from error
        text = outcome.as_text()
    return text, True


def _candidates(log: Path) -> tuple[int, int]:
    """Number of candidates in a log, and of those that ran."""
    lines = log.read_text().splitlines() if log.exists() else []
    return len(lines), sum(json.loads(line)["result"][1] == 0 for line in lines)


def _say(step: Any) -> None:
    print(step.detail, flush=True)
