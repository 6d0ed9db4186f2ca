"""Processes that build and run Ansor's candidates, kept from batch to batch.

TVM starts new ones for every batch of four, and each imports TVM for 0.7 s: on two cores half of a
search for small kernels. A worker whose candidate crashed or hung is still replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from tvm.auto_scheduler import measure
from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker

from tvm_ios.kernels.vector_math import arithmetic_lowering

__all__ = ["kept_workers", "limited_workers"]

USES = 100
"""Candidates after which a worker is replaced: a building one grows by almost 1 MB with each."""


@contextmanager
def kept_workers(*, arithmetic: bool = False) -> Iterator[None]:
    """Context in which TVM's builder and runner have one set of workers each, which end with it.

    ``arithmetic`` builds candidates with :mod:`~tvm_ios.kernels.vector_math`, as kernels are.
    """
    # TVM has no option for it; its functions look these names up for every batch.
    build = measure.local_build_worker
    measure.PopenPoolExecutor = cache(partial(PopenPoolExecutor, maximum_process_uses=USES))
    measure.PopenWorker = cache(partial(PopenWorker, maximum_uses=USES))
    measure.local_build_worker = build_with_arithmetic if arithmetic else build
    try:
        yield
    finally:
        measure.PopenPoolExecutor, measure.PopenWorker = PopenPoolExecutor, PopenWorker
        measure.local_build_worker = build


def build_with_arithmetic(arguments: Sequence[Any]) -> Any:
    """Result of TVM's own function that builds a candidate; runs in a worker."""
    with arithmetic_lowering():
        return measure.local_build_worker(arguments)


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
