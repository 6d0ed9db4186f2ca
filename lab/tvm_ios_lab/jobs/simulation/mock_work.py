"""Work whose stages and times are written down beforehand, done by a real worker.

It shows what an executor does: it is killed, moved and cut short like tuning, and what it has
measured lies in a file of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import DeviceLostError
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.order import CalledWork
from tvm_ios.jobs.tune_work import JobGate
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stage_gate import JobProgress, StageKind
from tvm_ios_lab.jobs.simulation.mock_job import MockJob, MockStage

__all__ = ["MockWork", "measured_batches", "run_mock_work", "stage_begins"]

_RECORDS = "records.txt"
_BEGINS = "begins.txt"
_POLL_S = 0.02
_BUSY = "while True: pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class MockWork:
    """Stages one after the other; of one that was begun and not ended, nothing is kept."""

    stages: tuple[MockStage, ...]
    burns: bool = False
    """Whether stages compute, those that build in a process below; they sleep otherwise."""

    @property
    def called(self) -> CalledWork:
        """The work as a job of a daemon has it."""
        return CalledWork(
            function=f"{__name__}:{run_mock_work.__name__}", text=to_json(MockWork, self)
        )

    def run(self, spec: JobSpec, gate: JobGate, folder: Path) -> None:
        """Go on after the last batch that is in the records."""
        job = MockJob(name=spec.name, stages=self.stages)
        measured = len(measured_batches(folder))
        profiles = [place for place, stage in enumerate(self.stages) if stage.trials]
        first = profiles[measured - 1] + 1 if measured else 0
        if measured:
            gate.tell(JobProgress(trials=job.trials(first), total=job.trials()))
        steps = _Steps(self, gate, folder, first)
        while steps.place < len(self.stages):
            try:
                job.run(gate, steps.sleep, steps.place)
            except DeviceLostError:
                continue


def run_mock_work(text: str, spec: JobSpec, gate: JobGate, folder: Path) -> None:
    """Do the `MockWork` that is written in a text, in a worker."""
    work: MockWork = from_json(MockWork, text, "the scripted work")
    work.run(spec, gate, folder)


@dataclass(slots=True)
class _Steps:
    """The stages of one worker, and where they are."""

    work: MockWork
    gate: JobGate
    folder: Path
    place: int

    def sleep(self, seconds: float) -> None:
        stage = self.work.stages[self.place]
        _append(self.folder / _BEGINS, time.monotonic())
        child = None
        if self.work.burns and stage.need.kind is StageKind.BUILD:
            child = subprocess.Popen([sys.executable, "-S", "-P", "-c", _BUSY])
        try:
            self._pass(seconds, burns=self.work.burns and child is None)
        finally:
            if child is not None:
                child.kill()
                child.wait()
        if stage.trials:
            _append(self.folder / _RECORDS, self.place)
        self.place += 1

    def _pass(self, seconds: float, *, burns: bool) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.gate.revoked():
                raise DeviceLostError("the device of this stage was lost; it begins again")
            if not burns:
                time.sleep(min(left, _POLL_S))


def measured_batches(folder: Path) -> tuple[int, ...]:
    """Places of the stages whose batches are in a job's records, in the order of measuring."""
    return tuple(map(int, _lines(folder / _RECORDS)))


def stage_begins(folder: Path) -> tuple[float, ...]:
    """Beginnings of all stages in their worker, in seconds of ``time.monotonic``."""
    return tuple(map(float, _lines(folder / _BEGINS)))


def _append(path: Path, value: float) -> None:
    with path.open("a", encoding="utf-8") as lines:
        lines.write(f"{value}\n")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return []
