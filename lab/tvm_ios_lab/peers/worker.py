"""Contestant in a process of its own, timed on request.

Thread pools of peers spin for a while after a run, pin threads, and set up OpenMP each in its own
way. In one process they would disturb each other; in processes of their own only the one whose
turn it is does anything. Each may have an interpreter of its own, too: one JSON line on standard
input is one request, one on standard output its answer.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_ios.driver.races.file_process import is_of_relax
from tvm_ios.errors import TvmIosError
from tvm_ios.install.finder import CHOICE_VARIABLE
from tvm_ios_lab.peers.build import exported_path, kept_build
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import read_case, relative_error
from tvm_ios_lab.peers.peer import Contestant, Peer, prepare
from tvm_ios_lab.peers.subject import member_folders
from tvm_ios_lab.peers.together import Together
from tvm_ios_lab.places import ROOT, python_path

__all__ = ["Prepared", "Worker", "serve"]

_WARMUP_NS = 10_000_000
"""Least length of the runs that do not count when a turn begins: they wake the thread pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Message of a worker once its network is loaded and has run."""

    relative_error: float
    seconds: float
    """Seconds from import to the end of the first run."""


class Worker:
    """Handle of a contestant's process; it ends with this process at the latest.

    Parameters
    ----------
    contestant
        Contestant that runs.
    folder
        The network's folder.
    python
        The interpreter that has what the contestant needs.
    """

    def __init__(self, contestant: Contestant, folder: Path, python: str = sys.executable) -> None:
        self.contestant = contestant
        threads = str(contestant.threads)
        what = (contestant.peer.value, threads, contestant.build, contestant.precision)
        self._process = subprocess.Popen(
            [python, "-m", "tvm_ios_lab.peers.worker", *what, str(folder.resolve())],
            cwd=ROOT,
            # For runtimes that are loaded without being told their threads.
            env=os.environ
            | {
                "OMP_NUM_THREADS": threads,
                "TVM_NUM_THREADS": threads,
                "PYTHONPATH": python_path(),
                **_tvm_of(contestant, folder),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    def prepared(self, limit_s: float) -> Prepared:
        """Wait until the network is loaded."""
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], limit_s)[0]:
            self.close()
            raise PeerError(f"{self.contestant.name}: not ready after {limit_s:.0f} s")
        return Prepared(**self._answer())

    def time_ns(self, number: int, *, warm_up: bool) -> int:
        """Nanoseconds of back-to-back runs; ``warm_up`` where another contestant ran before."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; why is told where the answer is read
            print(json.dumps([number, warm_up]), file=self._process.stdin, flush=True)
        return int(self._answer()["ns"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(
                f"{self.contestant.name}: its process ended with {self._process.wait()}; "
                "a negative number is the signal that killed it (-9 is often: out of memory)"
            )
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise PeerError(f"{self.contestant.name}: {answer['failed']}")
        return answer


def _tvm_of(contestant: Contestant, folder: Path) -> dict[str, str]:
    """Variable that has the process of a build of ours import the TVM that the build is of."""
    if contestant.peer not in (Peer.OURS, Peer.OURS_JOINT):
        return {}
    try:
        path = exported_path(folder, contestant.build or kept_build(folder).name)
        return {CHOICE_VARIABLE: "path" if is_of_relax(path) else "auto"}
    except (OSError, TvmIosError):  # the process itself says what is wrong with the file
        return {}


def serve(contestant: Contestant, folder: Path) -> None:
    """Load a subject's networks and answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        runner, prepared = _load(contestant, folder)
        say(prepared)
        gc.freeze()
        gc.disable()
        for line in sys.stdin:
            number, warm_up = json.loads(line)
            say({"ns": _time_ns(runner, number, warm_up=warm_up)})
    except PeerError as error:
        say({"failed": str(error)})
    except Exception:  # noqa: BLE001 - whatever a peer raises is told to the parent
        say({"failed": traceback.format_exc()})


def _load(contestant: Contestant, folder: Path) -> tuple[Together, dict[str, float]]:
    cases = [read_case(member) for member in member_folders(folder)]
    start = time.perf_counter()
    together = prepare(contestant, cases, folder)
    together.run()
    seconds = time.perf_counter() - start
    pairs = zip(together.outputs(), cases, strict=True)
    error = max(relative_error(output, case.reference) for output, case in pairs)
    return together, {"relative_error": error, "seconds": seconds}


def _time_ns(runner: Together, number: int, *, warm_up: bool) -> int:
    if warm_up:
        end_ns = time.perf_counter_ns() + _WARMUP_NS
        runner.run()
        while time.perf_counter_ns() < end_ns:
            runner.run()
    start_ns = time.perf_counter_ns()
    for _ in range(number):
        runner.run()
    return time.perf_counter_ns() - start_ns


if __name__ == "__main__":
    peer, threads, build, precision, folder = sys.argv[1:]
    serve(Contestant(Peer(peer), int(threads), build, precision), Path(folder))
