"""Work of a function that a job names."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.order import CalledWork


def test_the_function_gets_the_text_and_the_job(monkeypatch):
    calls, module = [], ModuleType("elsewhere")
    module.note = lambda *given: calls.append(given)
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    spec, gate = JobSpec(name="a"), object()
    CalledWork(function="elsewhere:note", text="said").run(spec, gate, Path("a"))
    assert calls == [("said", spec, gate, Path("a"))]
