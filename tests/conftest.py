"""What every test needs: all cores for TVM, a compile cache of its own, and child interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tvm_ios.host.processor import default_lanes

# Both are read when TVM or the compile cache is first used, so they are set before any test module
# is imported. A user's cache and profile database must not decide what a test sees.
os.environ.setdefault("TVM_NUM_THREADS", str(default_lanes()))
_CACHE = tempfile.mkdtemp(prefix="tvm-ios-tests-")
os.environ["TVM_IOS_CACHE_DIR"] = _CACHE

# A shared machine makes deadlines of examples meaningless.
settings.register_profile("tvm-ios", deadline=None)
settings.load_profile("tvm-ios")

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the session's cache."""
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds ``tvm_ios`` and ``pyproject.toml``."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run an interpreter with arguments and extra environment in an empty folder.

    Variables that choose a TVM or its libraries are taken out first; ``python`` is another
    interpreter than the one that runs the tests.
    """
    folder = tmp_path / "cwd"
    folder.mkdir()
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TVM_", "TOPHUB", "PYTHON", "LD_LIBRARY_PATH"))
    }
    clean["TVM_IOS_CACHE_DIR"] = _CACHE

    def run(
        *arguments: str, python: str = sys.executable, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=folder,
            env=clean | environment,
        )

    return run
