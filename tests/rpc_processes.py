"""A tracker and servers of TVM, each a process forked from one that has loaded TVM already.

``python -m tvm.exec.rpc_server`` imports TVM twice, for itself and for the worker that listens;
what listens here is the same code, and forks for each session as it does there.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator

_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(["tvm.rpc.server", "tvm.rpc.tracker"])
HOST = "127.0.0.1"


@contextlib.contextmanager
def tracker_process(port: int) -> Iterator[int]:
    """A tracker on a port; yields the id of its process, which is gone at the end."""
    with _group(_track, port) as process:
        yield process


@contextlib.contextmanager
def server_process(port: int, tracker: int, key: str, **variables: str) -> Iterator[int]:
    """A server that a tracker knows; yields the id of its group, which is gone at the end."""
    with _group(_serve, port, tracker, key, variables) as process:
        yield process


@contextlib.contextmanager
def _group(target: Callable[..., None], *arguments: object) -> Iterator[int]:
    """A process, and whatever it starts."""
    process = _WARM.Process(target=_alone, args=(target, *arguments))
    process.start()
    try:
        yield process.pid
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()  # it has no group yet, or has ended
        process.join()


def _alone(target: Callable[..., None], *arguments: object) -> None:
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    target(*arguments)


def _track(port: int) -> None:
    from tvm.rpc.tracker import PopenTrackerServerState

    PopenTrackerServerState(HOST, port, port + 1).thread.join()


def _serve(port: int, tracker: int, key: str, variables: dict[str, str]) -> None:
    from tvm.rpc.server import PopenRPCServerState

    if variables:
        os.environ.update(variables)
        # Else the process of a session comes from the fork server, which does not have them.
        multiprocessing.set_start_method("fork", force=True)
    state = PopenRPCServerState(HOST, port, port + 1, tracker_addr=(HOST, tracker), key=key)
    state.thread.join()
