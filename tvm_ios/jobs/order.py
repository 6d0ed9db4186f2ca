"""Jobs as they are submitted: what the scheduler has to know, and the work of the worker."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.tune_work import JobGate, TuneWork

__all__ = ["CalledWork", "JobOrder"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
"""Names of jobs are names of folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledWork:
    """Work of a function of a module that workers can import."""

    function: str
    """Name as ``module:function``."""
    text: str
    """Text that the function gets, such as its settings in JSON."""

    def run(self, spec: JobSpec, gate: JobGate, folder: Path) -> None:
        """Call the function with the text and these."""
        module, _, name = self.function.partition(":")
        getattr(importlib.import_module(module), name)(self.text, spec, gate, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """A job as it is submitted.

    Raises
    ------
    JobError
        If its name cannot be the name of a folder.
    """

    spec: JobSpec
    work: TuneWork | CalledWork

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.spec.name):
            raise JobError(
                f"job name {self.spec.name!r}: give at most 100 letters, digits and _ . + - "
                "that do not begin with . + or -"
            )
