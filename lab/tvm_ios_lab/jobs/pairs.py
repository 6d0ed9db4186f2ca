"""Whether a profile finds what it would find on an idle machine: the same kernel, timed in pairs.

While networks are tuned, a job that does nothing is granted the device again and again. Whenever it
has it, a fixed kernel is timed on the device's core: once as it is, others being wherever the
scheduler has put them, then with all of them stopped, and so on. A pair is two neighbours.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tvm_ios.jobs.core.job_state import JobSpec, JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.daemon.service import AskStatus, JobStatuses, SubmitJobs
from tvm_ios.jobs.daemon.unix_socket import ask_daemon
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.state_folder import DAEMON_MARK
from tvm_ios.support.stage_gate import StageNeed
from tvm_ios.tuning.guard import marked_processes
from tvm_ios_lab.jobs.runs import DEVICE_CORE, JobRun, Way, runs_of
from tvm_ios_lab.jobs.simulation.mock_job import MockStage
from tvm_ios_lab.jobs.simulation.mock_work import MockWork

__all__ = ["Pair", "judge", "take_pairs"]

HALF_S = 0.4
PAIRS_A_LEASE = 4
LEASE_S = 2 * HALF_S * PAIRS_A_LEASE + 2.0
_POLL_S = 0.02
_LONG_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Medians of the kernel's time, in nanoseconds."""

    during_ns: float
    """While others computed where the scheduler let them."""
    idle_ns: float
    """While they were stopped."""
    others: int
    """Jobs that were in a stage when the device was granted."""


def judge(pairs: Sequence[Pair]) -> dict[str, float]:
    """The ratio of the medians, and how far single pairs lie from it."""
    ratios = sorted(pair.during_ns / pair.idle_ns for pair in pairs)
    during, idle = (statistics.median(times) for times in zip(*_times(pairs), strict=True))
    return {
        "pairs": len(pairs),
        "beside_others": sum(pair.others > 0 for pair in pairs),
        "ratio_of_medians": during / idle,
        "lowest": ratios[0],
        "median": statistics.median(ratios),
        "highest": ratios[-1],
    }


def take_pairs(
    way: Way, networks: Sequence[str], trials: int, cache: Path, leases: int
) -> list[Pair]:
    """Pairs taken while networks are tuned in a way; what was tuned is not kept."""
    runs = runs_of(way, networks, trials, cache)
    runs = [replace(run, workers=run.workers + 1) for run in runs]
    with ExitStack() as daemons, _kernel() as kernel:
        for run in runs:
            daemons.enter_context(run.started("serve"))
        for run in runs:
            _await(lambda run=run: any(job.cores for job in _status(run)))
        return [
            pair for number in range(leases) for pair in _leased(runs, f"probe{number}", kernel)
        ]


def _leased(runs: Sequence[JobRun], name: str, kernel: subprocess.Popen[str]) -> Iterator[Pair]:
    """The pairs of one lease of the first run's device."""
    probe = MockStage(need=StageNeed.to_profile(1, "pairs"), work_s=LEASE_S, trials=1)
    order = JobOrder(spec=JobSpec(name=name, trials=1), work=MockWork(stages=(probe,)).called)
    ask_daemon(runs[0].folder, SubmitJobs((order,)))
    _await(lambda: _job(runs[0], name).cores)
    others = sum(bool(job.cores) and job.name != name for run in runs for job in _status(run))
    for _ in range(PAIRS_A_LEASE):
        during_ns = _timed(kernel)
        with _stopped(runs):
            idle_ns = _timed(kernel)
        yield Pair(during_ns=during_ns, idle_ns=idle_ns, others=others)
    if not _job(runs[0], name).cores:
        raise SystemExit("the device was given back before its pairs were taken; try again")
    _await(lambda: _job(runs[0], name).state is JobState.DONE)


def _times(pairs: Sequence[Pair]) -> list[tuple[float, float]]:
    return [(pair.during_ns, pair.idle_ns) for pair in pairs]


@contextmanager
def _kernel() -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "tvm_ios_lab.jobs.fixed_kernel", str(DEVICE_CORE)]
    kernel = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert kernel.stdin is not None
    assert kernel.stdout is not None
    try:
        kernel.stdout.readline()
        yield kernel
    finally:
        kernel.kill()
        kernel.communicate()


def _timed(kernel: subprocess.Popen[str]) -> float:
    assert kernel.stdin is not None
    assert kernel.stdout is not None
    kernel.stdin.write(f"{HALF_S}\n")
    kernel.stdin.flush()
    return statistics.median(map(int, kernel.stdout.readline().split()))


@contextmanager
def _stopped(runs: Sequence[JobRun]) -> Iterator[None]:
    """Inside, nothing that a daemon has started computes."""
    stopped = [each for run in runs for each in marked_processes(run.folder.mark, DAEMON_MARK)]
    for process in stopped:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in stopped:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def _status(run: JobRun) -> tuple[JobStatus, ...]:
    answer = ask_daemon(run.folder, AskStatus()) if run.folder.socket.exists() else None
    return answer.jobs if isinstance(answer, JobStatuses) else ()


def _job(run: JobRun, name: str) -> JobStatus:
    (found,) = (job for job in _status(run) if job.name == name)
    return found


def _await(wanted: Any) -> None:
    end = time.monotonic() + _LONG_S
    while not wanted():
        if time.monotonic() > end:
            raise SystemExit("the daemon does not come to what was waited for; see its logs")
        time.sleep(_POLL_S)
