"""The environment in which Python processes import nothing from the working directory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tvm_ios.support.safe_imports import SAFE_PATH, safe_imports


@pytest.mark.parametrize("before", [None, "", "1"])
def test_the_callers_variable_is_back_afterwards_also_after_an_error(monkeypatch, before):
    monkeypatch.delenv(SAFE_PATH, raising=False)
    if before is not None:
        monkeypatch.setenv(SAFE_PATH, before)
    with safe_imports(), safe_imports():
        assert os.environ[SAFE_PATH] == "1"
    assert os.environ.get(SAFE_PATH) == before
    with pytest.raises(KeyError), safe_imports():
        raise KeyError
    assert os.environ.get(SAFE_PATH) == before


def test_blocks_that_overlap_keep_each_other_safe(monkeypatch):
    monkeypatch.delenv(SAFE_PATH, raising=False)
    first, second = safe_imports(), safe_imports()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[SAFE_PATH] == "1"
    second.__exit__(None, None, None)
    assert SAFE_PATH not in os.environ


@pytest.mark.usefixtures("planted_folder")
def test_a_process_finds_what_is_installed_and_nothing_else():
    with safe_imports():
        subprocess.run([sys.executable, "-m", "tvm_ios", "--help"], check=True, stdout=-3)
        subprocess.run([sys.executable, "-c", "import numpy, socket, tvm_ios"], check=True)
