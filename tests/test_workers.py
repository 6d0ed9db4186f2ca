"""What becomes of the tests of a pytest worker that is killed."""

from __future__ import annotations

import os
import signal

import pytest

_CONFTEST = """
from tests.plugin import (
    pytest_collection_modifyitems, pytest_runtest_protocol, pytest_xdist_make_scheduler
)
"""
_TESTS = """
import os, signal, time
import pytest

def test_before():
    pass

def test_killed():
    child = os.fork()
    if child == 0:
        for name in os.listdir("/proc/self/fd"):
            link = f"/proc/self/fd/{name}"
            if os.path.lexists(link) and not os.readlink(link).endswith("/turn"):
                os.close(int(name))
        time.sleep(600)  # and keeps the turn of its parent
        os._exit(0)
    with open(os.environ["CHILD"], "w") as file:
        file.write(str(child))
    os.kill(os.getpid(), signal.SIGKILL)

def test_after():
    pass

@pytest.mark.quiet
def test_quiet():
    pass
"""


@pytest.mark.slow
def test_others_run_once_each_and_nobody_waits_for_its_children(run_python, project_root, tmp_path):
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_one.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = quiet: alone\n")
    child = tmp_path / "child"
    try:
        done = run_python(
            *("-m", "pytest", "-n", "2", "-v", "-p", "no:cacheprovider", str(tmp_path)),
            PYTHONPATH=str(project_root),
            TVM_IOS_CACHE_DIR=str(tmp_path),
            TVM_IOS_TEST_TURN_S="2",
            CHILD=str(child),
        )
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
    assert "1 failed, 3 passed" in done.stdout.splitlines()[-1], done.stdout
    assert "crashed while running" in done.stdout
    assert done.stdout.count("PASSED") == 3


_EACH = """
import os, time
import pytest

def _told(kind):
    with open(os.environ["TOLD"], "a") as file:
        file.write(f"{kind} {os.environ['PYTEST_XDIST_WORKER']}\\n")

@pytest.mark.quiet
def test_quiet():
    _told("quiet")

@pytest.mark.parametrize("number", range(4))
def test_any(number):
    time.sleep(0.1)
    _told("any")
"""


@pytest.mark.slow
def test_quiet_ones_share_a_worker_and_come_last(run_python, project_root, tmp_path):
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = quiet: alone\n")
    for name in ("one", "two", "three"):
        (tmp_path / f"test_{name}.py").write_text(_EACH)
    told = tmp_path / "told"
    done = run_python(
        *("-m", "pytest", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)),
        PYTHONPATH=str(project_root),
        TVM_IOS_CACHE_DIR=str(tmp_path),
        TOLD=str(told),
    )
    assert "15 passed" in done.stdout.splitlines()[-1], done.stdout
    lines = told.read_text().splitlines()
    assert "quiet" not in " ".join(lines[:4])  # what one file has beside
    assert len({line for line in lines if line.startswith("quiet")}) == 1
