"""Watch over a device while a candidate runs on it.

TVM's clients wait for a device that its tracker has no more until the time limit of the candidate,
usually a minute. The tracker itself knows at once that a server has gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from tvm.contrib.popen_pool import PopenPoolExecutor

from tvm_ios.errors import TuningError
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.tuning.remote import require_tracker

__all__ = ["watched_device"]

LOOK_S = 1.0
"""Seconds between two looks, also before the first: most candidates have ended by then."""


@contextmanager
def watched_device(
    address: DeviceAddress, pools: Callable[[], Iterable[PopenPoolExecutor]]
) -> Iterator[None]:
    """Context that kills the workers of pools as soon as the tracker has the device no more.

    Their candidates then fail at once, as with a worker that died. The pools start new ones.
    """
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(address, pools, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(
    address: DeviceAddress, pools: Callable[[], Iterable[PopenPoolExecutor]], over: threading.Event
) -> None:
    while not over.wait(LOOK_S):
        try:
            require_tracker(address.tracker, address.key)
        except TuningError:
            for pool in pools():
                _kill_workers(pool)


def _kill_workers(pool: PopenPoolExecutor) -> None:
    for worker in tuple(pool._worker_map.values()):  # noqa: SLF001 - it has no verb for it
        # Not `worker.kill()`: it closes the pipe that another thread reads, and waits for that.
        with suppress(AttributeError, OSError):
            worker._proc.kill()  # noqa: SLF001
