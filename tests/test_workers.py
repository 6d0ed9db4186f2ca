"""What becomes of the tests of a pytest worker that is killed."""

from __future__ import annotations

import os
import signal

import pytest

_CONFTEST = """
from tests.conftest import (
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
