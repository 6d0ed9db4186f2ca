from __future__ import annotations

import pytest

from tvm_ios.install.wheel import wheel_is_installed


def test_own_tvm_with_relay_is_left_alone(run_python, tmp_path):
    (tmp_path / "own" / "tvm" / "relay").mkdir(parents=True)
    for folder in (tmp_path / "own" / "tvm", tmp_path / "own" / "tvm" / "relay"):
        (folder / "__init__.py").write_text("")
    done = run_python("-m", "tvm_ios", "install-tvm", PYTHONPATH=str(tmp_path / "own"))
    assert done.returncode == 0, done.stderr
    assert "it wins, nothing to install" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not wheel_is_installed(), reason="the TVM wheel is not installed here")
def test_an_installed_wheel_is_left_as_it_is_and_a_tvm_that_loses_its_name_is_mentioned(
    run_python, tmp_path
):
    (tmp_path / "newer" / "tvm").mkdir(parents=True)
    (tmp_path / "newer" / "tvm" / "__init__.py").write_text("")
    done = run_python("-m", "tvm_ios", "install-tvm", PYTHONPATH=str(tmp_path / "newer"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("is installed")
    assert "the hook is up to date" in done.stdout.splitlines()
    assert "has no Relay; `import tvm` now gives the wheel's" in done.stdout
    assert "TVM_IOS_TVM=path gives the other one back" in done.stdout
