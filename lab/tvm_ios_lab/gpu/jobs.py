"""Steps as processes of their own: what one breaks, a GPU's context above all, goes with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tvm_ios_lab.gpu.ledger import Ledger, Outcome
from tvm_ios_lab.harness.ledger import Status
from tvm_ios_lab.places import ROOT, python_path

__all__ = ["Job", "child_environment", "die_with_parent"]

_PR_SET_PDEATHSIG = 1
_LAST_LINES = 5
_THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""TVM's, PyTorch's, numpy's."""
_QUEUES = "32"
"""Queues of a GPU, into which streams issue: with the driver's eight, a ninth stream would wait."""


class Job:
    """A running step.

    Parameters
    ----------
    name
        Name of the step.
    folder
        Folder of the evaluation.
    left_s
        Seconds that are left of the budget.
    threads
        Threads it may use.
    """

    def __init__(self, name: str, folder: Path, *, left_s: float, threads: int) -> None:
        self.name = name
        self._ledger = Ledger(folder)
        self._begin = time.monotonic()
        self._ledger.forget(name)
        command = [sys.executable, "-m", "tvm_ios_lab.gpu.work", str(folder), name]
        with self._ledger.log(name).open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(left_s)],
                cwd=ROOT,
                env=child_environment(dict.fromkeys(_THREADS, str(threads))),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begin

    def ended(self) -> Outcome | None:
        """Outcome of the step; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        outcome = self._ledger.outcome(self.name)
        return outcome or self._keep(
            Status.FAILED, f"its process ended with {code}: {self._said()}"
        )

    def cut(self) -> Outcome:
        """End the step; the next call does it again."""
        self._kill()
        return self._keep(Status.CUT, "the budget of the call was spent")

    def kill(self) -> None:
        """End it, and say nothing of it."""
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _keep(self, status: Status, reason: str) -> Outcome:
        outcome = Outcome(step=self.name, status=status, seconds=self.seconds, reason=reason)
        self._ledger.write(outcome)
        return outcome

    def _said(self) -> str:
        text = self._ledger.log(self.name).read_text(errors="replace")
        return " | ".join(text.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"


def child_environment(changes: Mapping[str, str], *, python: str | None = None) -> dict[str, str]:
    """Environment of a process that finds this repository and nvcc, as ours but for some changes.

    Parameters
    ----------
    changes
        Variables that are set.
    python
        Interpreter, if it is another one: it must not find packages that were made for ours.
    """
    ours = os.environ.get("PYTHONPATH") if python in (None, sys.executable) else None
    ours_too = {
        "PATH": _path_with_nvcc(),
        "PYTHONPATH": python_path(ours),
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": _QUEUES,
    }
    return os.environ | ours_too | dict(changes)


def _path_with_nvcc() -> str:
    """``PATH``, with the toolkit at the end that it forgets."""
    path = os.environ.get("PATH", os.defpath)
    toolkits = (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda")
    folders = [str(Path(toolkit) / "bin") for toolkit in toolkits if toolkit]
    forgotten = [folder for folder in folders if shutil.which("nvcc", path=folder)]
    if shutil.which("nvcc") is not None or not forgotten:
        return path
    return os.pathsep.join([path, forgotten[0]])


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends, even by kill -9."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
