"""A real RPC tracker with a real server, as TVM's documentation starts them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tvm_ios.errors import TuningError
from tvm_ios.tuning.remote import require_tracker

START_S = 60


@dataclass(frozen=True)
class LoopbackTracker:
    """Where it listens, and the key of its one device."""

    host: str
    port: int
    key: str

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """``python -m`` with these arguments; it and all that it starts are gone at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def bare_tracker() -> Iterator[LoopbackTracker]:
    """A tracker without a device."""
    port = free_port()
    where = ("--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1))
    with command("tvm.exec.rpc_tracker", *where):
        tracker = LoopbackTracker("127.0.0.1", port, "nobody")
        _wait_for(tracker, "has no device")
        yield tracker


@pytest.fixture(scope="session")
def loopback_tracker(bare_tracker: LoopbackTracker) -> Iterator[LoopbackTracker]:
    """The same tracker, once a server has registered with it."""
    port = free_port()
    tracker = LoopbackTracker(bare_tracker.host, bare_tracker.port, "loopback")
    where = ("--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1))
    with command("tvm.exec.rpc_server", *where, "--tracker", tracker.address, "--key", tracker.key):
        _wait_for(tracker, None)
        yield tracker


def _wait_for(tracker: LoopbackTracker, refusal: str | None) -> None:
    """Until the tracker has the device, or refuses with these words."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            require_tracker(tracker.address, tracker.key)
            return
        except TuningError as error:
            if refusal is not None and refusal in str(error):
                return
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
