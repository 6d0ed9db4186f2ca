"""``tvm-ios c-api`` without a TVM; what it prints is compiled in ``runtime/artifact``."""

from __future__ import annotations

import os

import pytest

from tvm_ios.cli.main import main


def test_a_tvm_that_is_missing_or_unfit_is_one_line(run_python, tmp_path):
    package = tmp_path / "own" / "tvm"
    package.mkdir(parents=True)
    missing = "raise ModuleNotFoundError('No module named tvm', name='tvm')\n"
    for text, told in ((missing, "no TVM found"), ('__version__ = "0.27.0"\n', "TVM 0.27.0 at")):
        (package / "__init__.py").write_text(text)
        path = str(package.parent)
        done = run_python("-m", "tvm_ios", "c-api", TVM_IOS_TVM="path", PYTHONPATH=path)
        (line,) = done.stderr.splitlines()
        assert told in line
        assert done.returncode == 2


def test_stand_ins_are_for_this_user_alone_and_written_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    before = os.umask(0)
    try:
        assert main(["c-api"]) == 0
    finally:
        os.umask(before)
    folder = tmp_path / "native" / "stand-ins"
    if str(folder) not in capsys.readouterr().out:
        pytest.skip("the libraries of CUDA are here")
    made = sorted(folder.iterdir())
    assert not any(path.stat().st_mode & 0o022 for path in (folder, *made))
    times = [path.stat().st_mtime_ns for path in made]
    assert main(["c-api"]) == 0
    assert [path.stat().st_mtime_ns for path in made] == times
    for path in made:
        path.unlink()
    folder.rmdir()
    folder.write_text("")
    assert main(["c-api"]) == 2
    assert "stand-ins/lib" in capsys.readouterr().err
