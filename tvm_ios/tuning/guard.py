"""Guard that ends all processes of a tuning run with it.

TVM's builders and runners start processes that start processes, trackers and servers among them,
which go on for good after a kill -9 of the tuner. All of them inherit a mark in their environment.
At the end of a run the marked ones are killed: by this process, or by a small guard process once
this one is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["MARK", "end_processes", "guarded_workers", "marked_processes", "start_guard"]

MARK = "TVM_IOS_TUNING_RUN"
POLL_S = 0.5
GRACE_S = 5.0
_GUARD = """
import os, sys
sys.path[:0] = {path!r}
from tvm_ios.tuning.guard import watch
watch({parent}, {mark!r}, {variable!r})
"""


@contextlib.contextmanager
def guarded_workers(*, threads: int = 1) -> Iterator[None]:
    """Context whose processes are gone afterwards, also after kill -9 of this process.

    ``threads`` is the number of threads on which they run kernels.
    """
    mark = uuid.uuid4().hex
    guard = start_guard(mark)
    try:
        # TVM reads the number of threads once a process, so workers have to inherit it.
        with _environment({MARK: mark, "TVM_NUM_THREADS": str(threads)}):
            yield
    finally:
        # The guard goes last: a kill -9 may come while processes are ended.
        end_processes(mark)
        guard.terminate()
        guard.wait()


def start_guard(mark: str, variable: str = MARK) -> subprocess.Popen[bytes]:
    """Process that ends all marked processes once this process is gone."""
    return subprocess.Popen(
        [sys.executable, "-S", "-E", "-P", "-c", _guard_code(mark, variable)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us; the guard goes when we say so
    )


def watch(parent: int, mark: str, variable: str = MARK) -> None:
    """Wait until this process has another parent, then end all marked processes."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    end_processes(mark, variable)


def end_processes(mark: str, variable: str = MARK) -> None:
    """Kill all marked processes, until none is left."""
    deadline = time.monotonic() + GRACE_S
    # A process may have started another one between being listed and being killed.
    while time.monotonic() < deadline:
        found = marked_processes(mark, variable)
        if not found:
            return
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        _reap(found)
        time.sleep(0.02)


def marked_processes(mark: str, variable: str = MARK) -> list[int]:
    """Live processes that were started with a mark in their environment, except this one."""
    wanted = f"{variable}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended, or belongs to somebody else
            marked = wanted in (folder / "environ").read_bytes().split(b"\0")
            if marked and not _is_zombie(folder):
                found.append(int(folder.name))
    return found


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Context whose environment variables are inherited by processes started in it."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_zombie(folder: Path) -> bool:
    # The program's name stands in brackets, and may have spaces and brackets itself.
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _reap(children: list[int]) -> None:
    """Take the exit status of children of ours that nobody waits for."""
    for child in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def _guard_code(mark: str, variable: str) -> str:
    package = str(Path(__file__).resolve().parents[2])
    return _GUARD.format(path=[package], parent=os.getpid(), mark=mark, variable=variable)
