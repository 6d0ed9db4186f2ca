"""Cost of the local executor of jobs: decisions, the daemon, and a grant's way to a worker.

Scripted jobs sleep in real workers, pinned as tuners are; then they compute without a pause, so
that daemon and agent have to share the cores with them. A grant's time is from the decision until
the stage begins in the worker, with all pinning in between. The numbers go to
``lab/results/jobs/latency.json``.

    python -m tvm_ios_lab.jobs.latency --jobs 4 --batches 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tvm_ios.jobs.core.commands import Command
from tvm_ios.jobs.core.events import Event
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.daemon.daemon import Daemon, sole_daemon
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios_lab.jobs.simulation.mock_job import batched_job
from tvm_ios_lab.jobs.simulation.mock_work import MockWork, stage_begins
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS

TABLE = RESULTS / "jobs" / "latency.json"


class TimedScheduler(Scheduler):
    """Counts the seconds of its decisions."""

    decisions_s: list[float]

    def handle(self, event: Event, now: float) -> tuple[Command, ...]:
        """Decide, and count."""
        begin = time.perf_counter()
        try:
            return super().handle(event, now)
        finally:
            self.decisions_s.append(time.perf_counter() - begin)


async def _measure(folder: StateFolder, jobs: int, batches: int, *, burns: bool) -> dict[str, Any]:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    machine = Machine(
        cores=cores, devices=(Device(name="cpu0", kind=DeviceKind.CORE, core=cores[-1]),)
    )
    scheduler = TimedScheduler(machine, policy_named(PolicyName.SLACK), Limits(max_active=jobs))
    scheduler.decisions_s = []
    daemon = Daemon(scheduler, folder)
    for number in range(jobs):
        job = batched_job(
            f"job{number}", batches, search_s=0.2, build_s=0.4, profile_s=0.2, update_s=0.1
        )
        daemon.submit(
            [JobOrder(spec=job.spec, work=MockWork(stages=job.stages, burns=burns).called)]
        )
    begin, cpu_begin = time.monotonic(), time.process_time()
    since_1970 = time.time() - begin
    await daemon.all_ended()
    seconds, cpu_s = time.monotonic() - begin, time.process_time() - cpu_begin
    grants_ms = []
    for number in range(jobs):
        name = f"job{number}"
        granted = [span.granted_s - since_1970 for span in daemon.spans() if span.job == name]
        begun = stage_begins(folder.jobs / name)
        grants_ms += [(b - g) * 1e3 for g, b in zip(sorted(granted), begun, strict=True)]
    await daemon.close()
    grants_ms.sort()
    decided_s, decisions = sum(scheduler.decisions_s), len(scheduler.decisions_s)
    return {
        "workers": jobs,
        "seconds": round(seconds, 1),
        "grants": len(grants_ms),
        "grant_median_ms": round(statistics.median(grants_ms), 2),
        "grant_99th_percentile_ms": round(grants_ms[int(0.99 * len(grants_ms))], 2),
        "grant_longest_ms": round(grants_ms[-1], 2),
        "decisions": decisions,
        "decision_us": round(decided_s / decisions * 1e6),
        "decisions_share_of_a_core": round(decided_s / seconds, 5),
        "daemon_share_of_a_core": round(cpu_s / seconds, 4),
    }


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--batches", type=int, default=20)
    arguments = parser.parse_args()
    taken = Measurement.here(program_command("tvm_ios_lab.jobs.latency"))
    found = {
        **taken.origin(),
        "processor": taken.processor,
        "cores": len(os.sched_getaffinity(0)),
        "workers that sleep": _measured(arguments.jobs, arguments.batches, burns=False),
        "workers that compute": _measured(arguments.jobs, arguments.batches, burns=True),
    }
    text = json.dumps(found, indent=1)
    TABLE.write_text(text + "\n", encoding="utf-8")
    print(text)


def _measured(jobs: int, batches: int, *, burns: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as path:
        folder = StateFolder(Path(path))
        with sole_daemon(folder):
            return asyncio.run(_measure(folder, jobs, batches, burns=burns))


if __name__ == "__main__":
    main()
