"""Networks that are tuned as jobs in one of several ways, each run in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.jobs.store import JobStore

__all__ = ["ANSOR_TRIALS", "DEVICE_CORE", "NETWORKS", "JobRun", "Way", "runs_of"]

NETWORKS = {
    "squeezenet": "autotvm",
    "nasnet_small": "auto_scheduler",
    "nasnet_small_c44": "autotvm",
    "randwire_small": "autotvm",
}
"""Networks that are tuned, and by which tuner."""
ANSOR_TRIALS = 8
"""Candidates of Ansor for one of AutoTVM: it counts those of all tasks, the other one's of each."""
DEVICE_CORE = max(os.sched_getaffinity(0))


class Way(Enum):
    """Way in which several networks share a machine."""

    SEQUENTIAL = "sequential"
    SLACK = "slack"
    LOCKSTEP = "lockstep"
    UNSCHEDULED = "unscheduled"
    """A ``tvm-ios jobs run`` for each network at the same time, none of which knows of the others.
    """

    @property
    def policy(self) -> str:
        """The policy of each scheduler."""
        return "fifo" if self is Way.UNSCHEDULED else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """Run of a daemon: its cache folder and its networks."""

    cache: Path
    policy: str
    networks: tuple[str, ...]
    trials: int
    """AutoTVM's candidates of each task."""
    workers: int = 4

    @property
    def folder(self) -> StateFolder:
        """Folder of the daemon's state."""
        return StateFolder(self.cache / "jobs")

    def spans(self) -> tuple[Span, ...]:
        """Stages of the run that have ended."""
        with JobStore(self.folder.database) as store:
            return store.spans()

    def model(self, network: str) -> Path:
        """File of a tuned network."""
        return (self.folder.jobs / network / "run").resolve() / "model.so"

    @contextmanager
    def started(self, verb: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start the daemon; it is gone afterwards."""
        daemon = subprocess.Popen(
            [sys.executable, "-m", "tvm_ios", "jobs", verb, str(self.write_file())],
            env=os.environ | {"TVM_IOS_CACHE_DIR": str(self.cache)},
            stdout=subprocess.DEVNULL,
        )
        try:
            yield daemon
        finally:
            daemon.terminate()
            daemon.wait()

    def write_file(self) -> Path:
        """The jobs in TOML, in the cache folder."""
        lines = ["[scheduler]", f'policy = "{self.policy}"', f"max_active = {self.workers}"]
        lines += ["[[device]]", 'name = "cpu0"', 'kind = "core"', f"core = {DEVICE_CORE}"]
        for network in self.networks:
            backend = NETWORKS.get(network, "autotvm")
            count = self.trials if backend == "autotvm" else self.trials * ANSOR_TRIALS
            lines += ["[[job]]", f'model = "{network}"', "[job.tuning]", f'backend = "{backend}"']
            lines += [f"trials = {count}", "repeat = 3", "min_repeat_ms = 10"]
        self.cache.mkdir(parents=True, exist_ok=True)
        file = self.cache / "jobs.toml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return file


def runs_of(way: Way, networks: Sequence[str], trials: int, cache: Path) -> list[JobRun]:
    """The daemons of a way: one, or one a network."""
    groups = [(each,) for each in networks] if way is Way.UNSCHEDULED else [tuple(networks)]
    return [
        JobRun(
            cache=cache / group[0] if way is Way.UNSCHEDULED else cache,
            policy=way.policy,
            networks=group,
            trials=trials,
        )
        for group in groups
    ]
