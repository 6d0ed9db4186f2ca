from __future__ import annotations


def test_own_tvm_with_relay_is_left_alone(run_python, tmp_path):
    (tmp_path / "own" / "tvm" / "relay").mkdir(parents=True)
    for folder in (tmp_path / "own" / "tvm", tmp_path / "own" / "tvm" / "relay"):
        (folder / "__init__.py").write_text("")
    done = run_python("-m", "tvm_ios", "install-tvm", PYTHONPATH=str(tmp_path / "own"))
    assert done.returncode == 0, done.stderr
    assert "it wins, nothing to install" in done.stdout
