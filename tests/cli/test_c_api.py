"""``tvm-ios c-api`` without a TVM; what it prints is compiled in ``runtime/artifact``."""

from __future__ import annotations


def test_a_tvm_that_is_missing_or_unfit_is_one_line(run_python, tmp_path):
    unfit = tmp_path / "own" / "tvm"
    unfit.mkdir(parents=True)
    (unfit / "__init__.py").write_text('__version__ = "0.27.0"\n')
    for path, told in (("", "no TVM found"), (str(unfit.parent), "TVM 0.27.0 at")):
        done = run_python("-m", "tvm_ios", "c-api", TVM_IOS_TVM="path", PYTHONPATH=path)
        (line,) = done.stderr.splitlines()
        assert told in line
        assert done.returncode == 2
