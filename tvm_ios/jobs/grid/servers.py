"""An RPC tracker and servers on loopback, started for a grid and gone with it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from tvm_ios.errors import TuningError
from tvm_ios.support.safe_imports import SAFE_PATH
from tvm_ios.tuning.guard import guarded_workers
from tvm_ios.tuning.remote import require_tracker

__all__ = ["loopback_devices"]

HOST = "127.0.0.1"
START_S = 60.0
POLL_S = 0.2


@contextlib.contextmanager
def loopback_devices(keys: tuple[str, ...], *, servers: int) -> Iterator[str]:
    """Address of a tracker that has as many servers of each key; all are gone at the end.

    They end with this process as well, however that ends.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(guarded_workers())
        port = _free_port()
        address = f"{HOST}:{port}"
        _start(stack, "rpc_tracker", port)
        for key in keys:
            for _ in range(servers):
                _start(stack, "rpc_server", _free_port(), "--tracker", address, "--key", key)
        for key in keys:
            _wait_for(address, key, servers)
        yield address


def _start(stack: contextlib.ExitStack, module: str, port: int, *words: str) -> None:
    # TVM would try port after port, and nobody would learn which one it took.
    where = ("--host", HOST, "--port", str(port), "--port-end", str(port + 1))
    process = subprocess.Popen(
        [sys.executable, "-m", f"tvm.exec.{module}", *where, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the grid, which ends them
        env=os.environ | {SAFE_PATH: "1"},
    )
    # The stack unwinds backwards: kill comes before wait.
    stack.callback(process.wait)
    stack.callback(process.kill)


def _wait_for(address: str, key: str, servers: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(TuningError):
            if require_tracker(address, key) >= servers:
                return
        if time.monotonic() > deadline:
            # Asked once more, the tracker says what is wrong.
            count = require_tracker(address, key)
            raise TuningError(
                f"{count} of {servers} RPC servers with key {key!r} came up at {address} within "
                f"{START_S:g} s; ask for fewer (servers = {count}), or free some memory"
            )
        time.sleep(POLL_S)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])
