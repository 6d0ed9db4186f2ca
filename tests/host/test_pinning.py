"""Pinning: real trees of processes with threads, some of which start while they are pinned."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tvm_ios.errors import HostError
from tvm_ios.host.pinning import descendants, pin_tree

USABLE = sorted(os.sched_getaffinity(0))
TREE = """
import os, subprocess, sys, threading, time
depth, code = int(sys.argv[1]), sys.argv[2]
for _ in range(3):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if depth:
    children = [subprocess.Popen([sys.executable, "-c", code, str(depth - 1), code])
                for _ in range(2)]
    def more():
        while True:
            threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
            time.sleep(0.002)
    threading.Thread(target=more, daemon=True).start()
os.write(1, b"ready\\n")  # in one piece: print makes two where Python does not buffer
time.sleep(600)
"""
PROCESSES = 7


@pytest.fixture
def tree():
    """Seven processes in three generations; four of them have no children."""
    root = subprocess.Popen(
        [sys.executable, "-c", TREE, "2", TREE], stdout=subprocess.PIPE, text=True
    )
    try:
        for _ in range(PROCESSES):
            assert root.stdout.readline() == "ready\n"
        yield root.pid
    finally:
        for process in descendants(root.pid):
            os.kill(process, 9)
        root.wait()
        root.stdout.close()


def cores_of(root):
    """Cores of every thread below a process."""
    found = {}
    for process in descendants(root):
        for thread in Path(f"/proc/{process}/task").iterdir():
            try:
                found[int(thread.name)] = os.sched_getaffinity(int(thread.name))
            except ProcessLookupError:
                continue
    return found


@pytest.mark.skipif(len(USABLE) < 2, reason="one core: there is nothing to move to")
def test_every_thread_of_every_descendant_moves_and_so_do_later_ones(tree):
    assert len(descendants(tree)) == PROCESSES
    mine = os.sched_getaffinity(0)
    for core in (USABLE[-1], USABLE[0]):
        pin_tree({core}, tree)
        time.sleep(0.05)  # threads that are younger than the call
        cores = cores_of(tree)
        assert len(cores) > 4 * PROCESSES
        assert set(map(frozenset, cores.values())) == {frozenset({core})}
    pin_tree(USABLE, tree)
    assert set(map(frozenset, cores_of(tree).values())) == {frozenset(USABLE)}
    assert os.sched_getaffinity(0) == mine


def test_who_has_ended_is_passed_over():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    pin_tree(USABLE, ended.pid)
    assert descendants(ended.pid) == ()


def test_who_ends_while_it_is_looked_at_is_passed_over(monkeypatch):
    """Seen once in 6,000 looks at a process whose children live for a millisecond."""
    ended = f"/proc/{os.getpid()}/task"

    def gone(answer):
        def answer_or_gone(path, *arguments, **options):
            if str(path) == ended:
                raise ProcessLookupError(3, "No such process")
            return answer(path, *arguments, **options)

        return answer_or_gone

    for name in ("stat", "listdir", "scandir"):
        monkeypatch.setattr(os, name, gone(getattr(os, name)))
    assert descendants(os.getpid()) == ()
    pin_tree(USABLE, os.getpid())


@pytest.mark.parametrize("cores", [(), (1023,), (-1,)])
def test_cores_that_are_not_there_are_named(cores):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        with pytest.raises(HostError, match=r"cannot be pinned to cores \["):
            pin_tree(cores, child.pid)
    finally:
        child.kill()
        child.wait()
