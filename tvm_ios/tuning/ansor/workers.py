"""Processes that build and run Ansor's candidates, kept from batch to batch.

TVM starts new ones for every batch of four, and each imports TVM for 0.7 s: on two cores half of a
search for small kernels. A worker whose candidate crashed or hung is still replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

from tvm.auto_scheduler import measure
from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker

__all__ = ["kept_workers", "limited_workers"]

USES = 100
"""Candidates after which a worker is replaced: a building one grows by almost 1 MB with each."""


@contextmanager
def kept_workers() -> Iterator[None]:
    """Context in which TVM's builder and runner have one set of workers each, which end with it."""
    # TVM has no option for it; its functions look these names up for every batch.
    measure.PopenPoolExecutor = cache(partial(PopenPoolExecutor, maximum_process_uses=USES))
    measure.PopenWorker = cache(partial(PopenWorker, maximum_uses=USES))
    try:
        yield
    finally:
        measure.PopenPoolExecutor, measure.PopenWorker = PopenPoolExecutor, PopenWorker


@contextmanager
def limited_workers(limit_s: float) -> Iterator[list[PopenPoolExecutor]]:
    """Context that sets a time limit for pools to which TVM gives none; yields a list of them.

    TVM's runner for RPC asks a tracker for a device, and would wait without end for a lost one.
    """
    pools = measure.PopenPoolExecutor
    made: list[PopenPoolExecutor] = []

    def limited(workers: int, timeout: float = limit_s, *initial: object) -> PopenPoolExecutor:
        made.append(pools(workers, timeout, *initial))
        return made[-1]

    measure.PopenPoolExecutor = limited
    try:
        yield made
    finally:
        measure.PopenPoolExecutor = pools
