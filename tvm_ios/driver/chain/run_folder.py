"""Saved runs: a folder each, with the compiled model and all that is known of it.

``runs/<run_id>`` in the cache folder holds ``model.so`` (what :func:`tvm_ios.load` reads),
``run.json`` (a :class:`RunReport`), ``tune.json`` (the report of ``tune``) and ``schedule.json``.
Free of TVM.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from tvm_ios.driver.chain.benchmark_context import BenchmarkContext
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.service_level import ServiceLevel
from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import UnreadableValueError, parse_json
from tvm_ios.support.whole_file import write_text

__all__ = ["RunFolder", "RunReport", "new_run_id", "runs_directory"]

RUN_VERSION = 1
MOST_NAMES = 5
"""Number of runs that an error names."""
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Report of a run: what was compiled, at what cost, and its latency."""

    run_id: str
    """Name of the run's folder; empty before it is saved."""
    model: str
    target: str
    """TVM target that it was compiled for."""
    lanes: int
    inputs: tuple[str, ...]
    """Names of the inputs that are no parameters, in order."""
    logs: tuple[str, ...]
    """Tuning logs whose records the kernels were chosen from; new records went to the first."""
    context: BenchmarkContext
    latency: Latency | None = None
    """Latency of the run; None before it was evaluated."""
    service_level: ServiceLevel | None = None
    """Service level with its evaluations; None where none was asked for."""

    def as_text(self) -> str:
        """Report as a page of text."""
        lines = [
            f"run {self.run_id or '(not saved)'}: {self.model} for {self.target}, "
            f"lanes: {self.lanes}",
            f"latency {'not evaluated' if self.latency is None else self.latency.as_text()}",
            *([] if self.service_level is None else [self.service_level.as_text()]),
            *(f"log {log}" for log in self.logs),
            self.context.as_text(),
        ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Versioned JSON of the report; :meth:`from_json` reads it back."""
        level = self.service_level
        record = {"version": RUN_VERSION} | noun_record(RunReport, self)
        if level is not None:
            record["service_level"] = level.as_record()
        return json.dumps(record, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Report in the JSON of :meth:`to_json`."""
        try:
            data = parse_json(text, "the run")
            version = data.field("version").whole()
            if version != RUN_VERSION:
                raise ArtifactError(
                    f"the run has version {version}, this tvm-ios reads {RUN_VERSION}; save it "
                    "again"
                )
            return noun_from(
                cls,
                data.without("version"),
                whole=True,
                lanes=lambda number: number.whole(least=1),
                service_level=lambda level: level.or_none(ServiceLevel.from_record),
            )
        except UnreadableValueError as error:
            raise ArtifactError(f"{error}; save the run again") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """Folder of one run."""

    path: Path

    @classmethod
    def find(cls, run_id: str) -> Self:
        """Folder of a saved run."""
        if not isinstance(run_id, str) or not _PLAIN.fullmatch(run_id):
            raise OptionError(f"run_id is {run_id!r}; give the name of a run, as save() made it")
        folder = cls(path=runs_directory() / run_id)
        if not folder.report_path.is_file():
            there = sorted(path.parent.name for path in runs_directory().glob("*/run.json"))
            newest = ", ".join(there[-MOST_NAMES:]) or "none; save() makes one"
            raise ArtifactError(
                f"there is no run {run_id!r} in {runs_directory()}; the newest are {newest}"
            )
        for path in (folder.path, folder.library):
            require_own(path)
        return folder

    @classmethod
    def make(cls, report: RunReport, export: Callable[[Path], None], **texts: str) -> Self:
        """Folder of a run that is saved now; it appears when everything is in it.

        ``export`` writes the compiled model; the texts are further JSON files by name.
        """
        place = runs_directory()
        folder = cls(path=place / report.run_id)
        try:
            place.mkdir(parents=True, exist_ok=True)
            # A rename works within one file system only, so the folder is made beside its place.
            partial = Path(tempfile.mkdtemp(dir=place, prefix=".saving-"))
        except OSError as error:
            raise ArtifactError(
                f"cannot save the run in {place}: {error}; set TVM_IOS_CACHE_DIR to a folder you "
                "can write"
            ) from error
        try:
            export(partial / folder.library.name)
            (partial / folder.library.name).chmod(0o644)
            for name, text in texts.items():
                write_text(partial / f"{name}.json", text + "\n")
            write_text(partial / folder.report_path.name, report.to_json() + "\n")
            os.replace(partial, folder.path)
        except OSError as error:
            raise ArtifactError(f"cannot save the run at {folder.path}: {error}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return folder

    @property
    def library(self) -> Path:
        """Path of the compiled model, for :func:`tvm_ios.load`."""
        return self.path / "model.so"

    @property
    def report_path(self) -> Path:
        """Path of the report, in JSON."""
        return self.path / "run.json"

    def report(self) -> RunReport:
        """Report that was saved with the run, or written since."""
        try:
            return RunReport.from_json(self.report_path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ArtifactError) as error:
            raise ArtifactError(f"{self.report_path}: {error}") from error

    def write(self, report: RunReport) -> None:
        """Replace the report."""
        write_text(self.report_path, report.to_json() + "\n")


def runs_directory() -> Path:
    """Path of ``runs`` in the cache folder of tvm-ios."""
    return own_folder(cache_directory() / "runs")


def new_run_id(model: str, *, now: datetime | None = None) -> str:
    """Name for a run: time in UTC, model, and digits that no other run has.

    Examples
    --------
    >>> from datetime import datetime
    >>> new_run_id("a net", now=datetime(2026, 1, 2, 3, 4, 5))[:22]
    '20260102-030405-a-net-'
    """
    taken = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    plain = re.sub(r"[^\w.-]+", "-", model).strip("-.") or "model"
    return f"{taken}-{plain}-{os.urandom(3).hex()}"
