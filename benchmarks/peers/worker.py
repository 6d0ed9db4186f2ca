"""One contestant in a process of its own, timed on request.

Thread pools of peers spin for a while after a run, pin threads, and set up OpenMP each in its own
way. In one process they would disturb each other; in processes of their own only the one whose
turn it is does anything.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.peers.errors import PeerError
from benchmarks.peers.network import read_case, relative_error
from benchmarks.peers.peer import Contestant, Runner, prepare

__all__ = ["Prepared", "Worker"]

_WARMUP_NS = 10_000_000
"""Least length of the runs that do not count when a turn begins: they wake the thread pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a worker says once its network is loaded and has run."""

    relative_error: float
    seconds: float
    """From import to the end of the first run."""


@dataclass(frozen=True, slots=True)
class _Failed:
    message: str


class Worker:
    """Handle of a contestant's process; it ends with this process at the latest.

    Parameters
    ----------
    contestant
        Who runs.
    folder
        The network's folder.
    """

    def __init__(self, contestant: Contestant, folder: Path) -> None:
        self.contestant = contestant
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, contestant, folder), daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid

    def prepared(self, limit_s: float) -> Prepared:
        """Wait until the network is loaded.

        Raises
        ------
        PeerError
            If that fails, or takes longer than ``limit_s``; the process is ended then.
        """
        if not self._connection.poll(limit_s):
            self.close()
            raise PeerError(f"{self.contestant.name}: not ready after {limit_s:.0f} s")
        answer = self._answer()
        if not isinstance(answer, Prepared):
            raise PeerError(f"{self.contestant.name}: answered {answer!r} when asked to load")
        return answer

    def time_ns(self, number: int, *, warm_up: bool) -> int:
        """Nanoseconds of back-to-back runs; ``warm_up`` where another contestant ran before.

        Raises
        ------
        PeerError
            If a run fails.
        """
        self._connection.send((number, warm_up))
        answer = self._answer()
        if not isinstance(answer, int):
            raise PeerError(f"{self.contestant.name}: answered {answer!r} when asked to run")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _answer(self) -> object:
        try:
            answer: object = self._connection.recv()
        except EOFError as error:
            self._process.join()
            raise PeerError(
                f"{self.contestant.name}: its process ended with {self._process.exitcode}; "
                "a negative number is the signal that killed it (-9 is often: out of memory)"
            ) from error
        if isinstance(answer, _Failed):
            raise PeerError(f"{self.contestant.name}: {answer.message}")
        return answer


def _serve(connection: Connection, contestant: Contestant, folder: Path) -> None:
    try:
        runner = _load(connection, contestant, folder)
        gc.freeze()
        gc.disable()
        while True:
            number, warm_up = connection.recv()
            connection.send(_time_ns(runner, number, warm_up=warm_up))
    except EOFError:
        return
    except PeerError as error:
        connection.send(_Failed(str(error)))
    except Exception:  # noqa: BLE001 - whatever a peer raises is told to the parent
        connection.send(_Failed(traceback.format_exc()))


def _load(connection: Connection, contestant: Contestant, folder: Path) -> Runner:
    # For OpenMP runtimes that are loaded without being told their threads.
    os.environ["OMP_NUM_THREADS"] = str(contestant.threads)
    case = read_case(folder)
    start = time.perf_counter()
    runner = prepare(contestant, case, folder)
    runner.run()
    seconds = time.perf_counter() - start
    error = relative_error(runner.output(), case.reference)
    connection.send(Prepared(relative_error=error, seconds=seconds))
    return runner


def _time_ns(runner: Runner, number: int, *, warm_up: bool) -> int:
    if warm_up:
        end_ns = time.perf_counter_ns() + _WARMUP_NS
        runner.run()
        while time.perf_counter_ns() < end_ns:
            runner.run()
    start_ns = time.perf_counter_ns()
    for _ in range(number):
        runner.run()
    return time.perf_counter_ns() - start_ns
