"""No process of a tuning run outlives it: after success, an error, and kill -9 of the tuner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tvm_ios.tuning.guard import MARK, guarded_workers, marked_processes

SLEEPER = "import subprocess, sys; subprocess.Popen(['sleep', '600']).wait()"
"""A worker with a child of its own, both of which would sleep for ten minutes."""


def start_worker():
    return subprocess.Popen([sys.executable, "-c", SLEEPER])


def await_marked(mark, count):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len(marked_processes(mark)) >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"only {marked_processes(mark)} came up")


def await_none(mark):
    deadline = time.monotonic() + 20
    while marked_processes(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not marked_processes(mark)


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_workers_and_their_children_end_with_the_run(error):
    workers = []

    def run():
        with guarded_workers():
            mark = os.environ[MARK]
            workers.append(start_worker())
            await_marked(mark, 2)
            if error is not None:
                raise error(mark)
            return mark

    if error is None:
        mark = run()
    else:
        with pytest.raises(error) as caught:
            run()
        mark = str(caught.value)
    workers[0].wait()
    assert not marked_processes(mark)
    assert MARK not in os.environ


@pytest.mark.slow(1)
@pytest.mark.usefixtures("planted_folder")
def test_workers_end_after_kill_9_of_the_tuner():
    """Wherever it was started: its guard runs nothing of the working directory."""
    script = (
        "import os, subprocess, sys, time\n"
        "from tvm_ios.tuning.guard import MARK, guarded_workers\n"
        "with guarded_workers():\n"
        f"    subprocess.Popen([sys.executable, '-P', '-c', {SLEEPER!r}])\n"
        "    print(os.environ[MARK], flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-P", "-c", script]
    tuner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert tuner.stdout is not None
    mark = tuner.stdout.readline().strip()
    await_marked(mark, 2)
    tuner.send_signal(signal.SIGKILL)
    tuner.wait()
    tuner.stdout.close()
    await_none(mark)


def test_others_are_left_alone():
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        with guarded_workers():
            pass
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_runs_may_be_nested():
    with guarded_workers():
        outer = os.environ[MARK]
        with guarded_workers():
            assert os.environ[MARK] != outer
        assert os.environ[MARK] == outer


def test_workers_run_kernels_on_the_threads_that_are_asked_for(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "7")
    with guarded_workers(threads=3):
        seen = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ['TVM_NUM_THREADS'])"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert seen.stdout.strip() == "3"
    assert os.environ["TVM_NUM_THREADS"] == "7"
    assert MARK not in os.environ
