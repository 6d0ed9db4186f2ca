"""Work that a function outside this package does, such as the scripted jobs of a simulation."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.job_gate import JobGate

__all__ = ["CalledWork"]


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
