"""Calls of ``tune`` that return their first model, while a process looks for the finished one."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.later.job import write_job
from tvm_ios.driver.tune import tune_race
from tvm_ios.support.progress import Progress
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["LaterModel", "begin_tune"]

_LOG = logging.getLogger(__name__)
_WORKER = """
import sys
sys.path[:0] = {path!r}
from tvm_ios.driver.later.worker import main
main({parent}, {quiet_s})
"""
QUIET_S = 60.0
"""Seconds that the process waits at most for the machine to be quiet, before it measures: programs
often run their model a lot right after its first call, and then have other things to do."""
_END_S = 1.0
"""Seconds that a killed process may take to be gone, before nobody waits for it."""


def begin_tune(call: TuneCall) -> tuple[CompiledModel, LaterModel | None]:
    """First model of a call of ``tune``, and the finished one that a process looks for.

    Without a second one the first is finished: an equal call has left it, or results are not kept,
    so that no other process could hand one over. Errors are those of :func:`tvm_ios.tune`.
    """
    kept = KeptCall.of(call)
    if (known := kept.find()) is not None:
        return known, None
    if not kept.key or kept.asked is None:
        return tune_race(call).kept, None
    model = _first_model(call)
    try:
        return model, LaterModel(replace(kept, call=replace(call, database=kept.asked.database)))
    except OSError as error:
        _LOG.warning("the first model of a call stays: no process can be started: %s", error)
        return model, None


class LaterModel:
    """Finished model of a call of ``tune``, which a process of low priority looks for.

    It is asked for once. The process ends with this object, and with this process.

    Raises
    ------
    OSError
        If the process cannot be started.
    """

    def __init__(self, kept: KeptCall) -> None:
        self._kept = kept
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the process ends
        with tempfile.TemporaryFile() as job:
            write_job(kept.call, job)
            job.seek(0)
            self._process = _started(job, self._errors)
        self._end = weakref.finalize(self, _end, self._process, self._errors, os.getpid())

    @property
    def has_ended(self) -> bool:
        """True once :meth:`model` has an answer; asking takes microseconds."""
        return self._process.poll() is not None

    def model(self) -> CompiledModel | None:
        """Finished model, loaded from its file; None where there is none, which the log tells."""
        code = self._process.wait()
        self._errors.seek(0)
        told = self._errors.read().decode(errors="replace").strip().splitlines()
        self.end()
        if code:
            reason = told[-1] if told else f"its process ended with {code}"
            _LOG.warning("the first model of a call stays: %s", reason)
            return None
        return self._kept.find()

    def end(self) -> None:
        """End the process; what it has measured and compiled is kept."""
        self._end()


class _FirstFound(Exception):  # noqa: N818 - it is no error
    """End of a call that has a first model."""

    def __init__(self, model: CompiledModel) -> None:
        super().__init__()
        self.model = model


def _first_model(call: TuneCall) -> CompiledModel:
    """First model of a call, which ends with it."""

    def stop(progress: Progress) -> None:
        if progress.model is not None:
            raise _FirstFound(progress.model)

    try:
        return tune_race(replace(call, progress=stop, time_budget=TimeBudget())).kept
    except _FirstFound as found:
        return found.model


def _started(job: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    package = str(Path(__file__).resolve().parents[3])
    code = _WORKER.format(path=[package], parent=os.getpid(), quiet_s=QUIET_S)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=job,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        # Ctrl-C is for this process. A session of its own would also have a share of its own of
        # the processor, where the kernel groups sessions, and no lower priority in it would count.
        process_group=0,
    )


def _end(process: subprocess.Popen[bytes], errors: IO[bytes], starter: int) -> None:
    """Kill the process and those that it started; nothing is lost by that."""
    errors.close()
    if os.getpid() != starter or process.poll() is not None:  # a fork has nothing to end
        return
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
