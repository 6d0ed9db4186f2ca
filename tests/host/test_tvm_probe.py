from __future__ import annotations

import pytest

from tvm_ios.host import describe_tvm
from tvm_ios.host.tvm_probe import TvmReport


@pytest.mark.slow
def test_the_tvm_of_this_environment_is_described():
    report = describe_tvm()
    assert report.problem is None
    assert "relay" in report.dialects
    assert "llvm" in report.targets
    assert report.host_target is not None
    assert report.host_target.startswith("llvm")


def test_a_tvm_that_ends_the_process_is_a_problem_not_a_crash(monkeypatch, tmp_path):
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("import os; os.abort()\n")
    monkeypatch.setenv("TVM_IOS_TVM", "path")
    monkeypatch.syspath_prepend(tmp_path)
    report = describe_tvm()
    assert report == TvmReport(problem=report.problem)
    assert "importing TVM ended the process (-6)" in report.problem
