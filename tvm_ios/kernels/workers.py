"""Worker processes that compile kernels, shared by all compilers of one call.

A worker takes two seconds to import TVM, so it is kept, and started before it is needed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue

from tvm.contrib.popen_pool import PopenWorker

from tvm_ios.host import default_lanes
from tvm_ios.kernels.code_generation import CodeGeneration, generate_in_worker
from tvm_ios.support.safe_imports import safe_imports

__all__ = [
    "KernelWorkers",
    "SafeWorker",
    "shared_workers",
    "start_shared_workers",
    "workers_in_force",
]

WORTH_STARTING = 12
"""Number of kernels to compile from which on it pays to start workers."""
WORTH_ASKING = 2
"""Number of kernels to compile from which on running workers get some."""
_START = PopenWorker._start  # noqa: SLF001 - TVM's pools have no option for how they start


class SafeWorker(PopenWorker):  # type: ignore[misc]
    """A worker process of TVM that imports nothing from the working directory."""

    def _start(self) -> None:
        with safe_imports():
            super()._start()


class KernelWorkers:
    """Processes of TVM that compile a kernel at a time, each driven by a thread.

    There is one for every other usable core unless their number is given. The first task starts
    them, :meth:`close` ends them.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = default_lanes() - 1 if count is None else count
        self._all = [SafeWorker() for _ in range(self.count)]
        self._idle: SimpleQueue[SafeWorker] = SimpleQueue()
        for worker in self._all:
            self._idle.put(worker)
        self._threads: ThreadPoolExecutor | None = None
        self._answered = False

    def worth(self, kernels: int) -> bool:
        """True if a number of kernels is compiled sooner with workers than without."""
        return self.count > 0 and kernels >= (WORTH_ASKING if self._answered else WORTH_STARTING)

    def start(self) -> None:
        """Begin to start the processes, unless that was done."""
        if self._threads is None:
            for _ in self._all:
                self._pool().submit(self._run, _nothing, ())

    def submit(self, module: str, settings: CodeGeneration) -> Future[bytes]:
        """Compile a kernel as soon as a process is free."""
        return self._pool().submit(self._run, generate_in_worker, (module, settings))

    def close(self) -> None:
        """End the processes, each after its present kernel."""
        # Not the other way round: closing a pipe waits for the thread that reads from it.
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.kill()

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.count, thread_name_prefix="tvm-ios-compile")
        return self._threads

    def _run(self, task: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
        worker = self._idle.get()
        try:
            # TVM starts a process that died anew, with the next task.
            worker.send(task, list(arguments))
            result: bytes = worker.recv()
        finally:
            self._idle.put(worker)
        self._answered = True
        return result


_SHARED: ContextVar[KernelWorkers | None] = ContextVar("shared kernel workers", default=None)


def workers_in_force() -> KernelWorkers | None:
    """Workers that compilers of this context share; None outside of :func:`shared_workers`."""
    return _SHARED.get()


def start_shared_workers(kernels: int) -> None:
    """Start the shared workers, if there are any, to be ready for the first kernel.

    ``kernels`` is the expected number; for a few, no workers are started.
    """
    workers = workers_in_force()
    if workers is not None and workers.worth(kernels):
        workers.start()


@contextmanager
def shared_workers() -> Iterator[None]:
    """Context in which all compilers of kernels share workers, which end with it."""
    if workers_in_force() is not None:
        yield
        return
    workers = KernelWorkers()
    token = _SHARED.set(workers)
    try:
        with _deaf_workers():
            yield
    finally:
        _SHARED.reset(token)
        workers.close()


@contextmanager
def _deaf_workers() -> Iterator[None]:
    """Within it, worker processes of TVM start deaf to Ctrl-C: who started them ends them.

    A terminal sends it to them as well, and they would print where they were.
    """

    def start_deaf(worker: PopenWorker) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
        try:
            _START(worker)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    PopenWorker._start = start_deaf  # noqa: SLF001
    try:
        yield
    finally:
        PopenWorker._start = _START  # noqa: SLF001


def _nothing() -> bytes:
    return b""
