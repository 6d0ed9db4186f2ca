"""The daemon: who decides, a clock, the workers that obey, and the file that forgets nothing.

All lives in one event loop. An event is written down, handled, and its commands obeyed before the
next one comes.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.commands import JobChanged, ReportPolicy, StartWorker
from tvm_ios.jobs.core.events import Event, JobCancelled, JobSubmitted, ProgressTold, Tick
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.core.trace import Span, Trace
from tvm_ios.jobs.executor import JobCore, MakeWorkers, Workers
from tvm_ios.jobs.local.agent import LocalAgent
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.state_folder import DAEMON_MARK, StateFolder
from tvm_ios.jobs.store import JobStore, StoredJob
from tvm_ios.tuning.guard import end_processes, start_guard

__all__ = ["Daemon", "sole_daemon"]

_LOG = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Daemon:
    """Jobs of one folder, run by one scheduler. Make it in a running event loop.

    The core is a new one, and this the only daemon of the folder: see `sole_daemon`. Workers are
    processes of this machine where nobody is given who makes them.
    """

    def __init__(
        self,
        core: JobCore,
        folder: StateFolder,
        listener: Listener | None = None,
        *,
        workers: MakeWorkers | None = None,
    ) -> None:
        self._core = core
        self._store = JobStore(folder.database)
        make = workers or (lambda say, _: LocalAgent(core.machine, folder.jobs, say))
        self._workers: Workers = make(self.say, self.fail)
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        # Stages are timed by the loop's clock, which nobody sets, and stored with dates.
        self._since_1970 = time.time() - self._loop.time()
        self._trace = Trace()
        self._kept = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._fault: asyncio.Future[None] = self._loop.create_future()
        self._earlier = {job.order.spec.name: job for job in self._store.jobs()}
        """Jobs of earlier daemons that have ended."""

    @property
    def machine(self) -> Machine:
        """Cores and devices that the jobs share."""
        return self._core.machine

    # ---- Requests ----

    def resume(self) -> tuple[str, ...]:
        """Go on with jobs that had not ended when the last daemon went; their names.

        One that cannot go on, as where its device is gone, has failed.
        """
        left = [job for job in self._earlier.values() if not job.state.ended]
        for job in left:
            try:
                self._accept(job)
            except JobError as error:
                self._give_up(job, str(error))
        names = (job.order.spec.name for job in left)
        return tuple(name for name in names if name not in self._earlier)

    def submit(self, orders: Sequence[JobOrder]) -> tuple[str, ...]:
        """Take jobs in; return the names of those that are new.

        The same job as before, done or on its way, is not done again. One that failed or was
        cancelled is, and so is one that is done and differs now.
        """
        for name, count in Counter(order.spec.name for order in orders).items():
            if count > 1:
                raise JobError(f"job {name!r} is there {count} times; give each a name of its own")
        known = {job.order.spec.name: job for job in self._store.jobs()}
        fresh = [order for order in orders if self._is_new(order, known.get(order.spec.name))]
        devices = self.machine.devices
        names = ", ".join(f"{each.name} ({each.kind.value})" for each in devices) or "no device"
        for order in fresh:
            spec = order.spec
            if not any(map(spec.wish.takes, devices)):
                raise JobError(
                    f"job {spec.name!r} needs {spec.wish.as_text()}; the daemon has {names}"
                )
        for order in fresh:
            # The file comes first: after a kill in between, the next daemon goes on with the job.
            self._store.submit(order, time.time())
            self._workers.accept(order)
            self._earlier.pop(order.spec.name, None)
            self._handle(JobSubmitted(order.spec))
        return tuple(order.spec.name for order in fresh)

    def cancel(self, name: str) -> None:
        """Cancel a job; one that has ended stays as it is."""
        if name not in self._earlier:
            self._handle(JobCancelled(name))

    def status(self) -> tuple[JobStatus, ...]:
        """Statuses of all jobs, those of earlier daemons first."""
        present = self._core.snapshot(self._loop.time())
        return (*(job.status() for job in self._earlier.values()), *present)

    def spans(self) -> tuple[Span, ...]:
        """Stages of all jobs, in seconds since 1970; those that compute still at the end."""
        computing = self._trace.spans[len(self._trace.ended) :]
        return (*self._store.spans(), *map(self._dated, computing))

    async def all_ended(self) -> None:
        """Wait until no job waits or runs.

        Raises
        ------
        JobError
            If the daemon cannot go on, as where its disk is full or a cluster's head has gone.
        """
        if self._core.all_ended:
            self._ended.set()  # nothing was submitted
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((ended, self._fault), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if self._fault.done():
            await self._fault

    async def fault(self) -> None:
        """Wait until the daemon cannot go on, and raise why."""
        # Whoever waits may be cancelled; the fault itself must stay for others.
        await asyncio.shield(self._fault)

    async def close(self) -> None:
        """End all workers; what is not done goes on with the next daemon."""
        if self._timer is not None:
            self._timer.cancel()
        await self._workers.close()
        self._store.close()
        self._fault.cancel()

    # ---- Events ----

    def say(self, event: Event) -> None:
        """Take note of an event, and do what follows; what goes wrong ends the daemon."""
        try:
            self._handle(event)
        except Exception as error:  # noqa: BLE001 - whoever waits for the end is told
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Have whoever waits for the end told why the daemon cannot go on."""
        if not self._fault.done():
            self._fault.set_exception(error)

    def _handle(self, event: Event) -> None:
        if isinstance(event, ProgressTold):
            self._store.tell(event.job, event.progress)
        now = self._loop.time()
        commands = self._core.handle(event, now)
        self._trace.add(event, commands, now)
        for command in commands:
            if isinstance(command, JobChanged):
                self._store.change(
                    command.job, command.state, command.reason, now + self._since_1970
                )
            elif isinstance(command, StartWorker):
                self._store.count_attempt(command.job)
            elif isinstance(command, ReportPolicy):
                _LOG.error("the policy is at fault: %s", command.error)
            self._workers.obey(command)
        ended = self._trace.ended[self._kept :]
        self._store.add_spans(map(self._dated, ended))
        self._kept += len(ended)
        self._wind()
        if self._core.all_ended:
            self._ended.set()
        else:
            self._ended.clear()
        if self._listener is not None:
            self._listener(event)

    def _wind(self) -> None:
        """Have time told when the scheduler wants to know it."""
        if self._timer is not None:
            self._timer.cancel()
        wake = self._core.wake_at
        self._timer = None if wake is None else self._loop.call_at(wake, self.say, Tick())

    def _accept(self, job: StoredJob) -> None:
        name = job.order.spec.name
        self._workers.accept(job.order)
        self._handle(JobSubmitted(job.order.spec))
        if job.progress.trials:
            self._handle(ProgressTold(name, job.progress))
        del self._earlier[name]

    def _give_up(self, job: StoredJob, reason: str) -> None:
        name, now_s = job.order.spec.name, time.time()
        self._store.change(name, JobState.FAILED, reason, now_s)
        self._earlier[name] = replace(job, state=JobState.FAILED, reason=reason, ended_s=now_s)

    def _is_new(self, order: JobOrder, before: StoredJob | None) -> bool:
        """Whether a job is to be run that is stored like this so far; None: not at all."""
        if before is None:
            return True
        name = order.spec.name
        if before.order == order and (not before.state.ended or before.state is JobState.DONE):
            return False
        if not before.state.ended:
            raise JobError(
                f"job {name!r} is on its way with other settings; cancel it "
                f"(tvm-ios jobs cancel {name}), or give the new one another name"
            )
        if name not in self._earlier:
            raise JobError(
                f"job {name!r} has ended under this daemon ({before.state.value}); give the new "
                "one another name, or start the daemon again"
            )
        return True

    def _dated(self, span: Span) -> Span:
        shift = self._since_1970
        return replace(
            span,
            asked_s=span.asked_s + shift,
            granted_s=span.granted_s + shift,
            ended_s=None if span.ended_s is None else span.ended_s + shift,
            places=tuple((since + shift, cores) for since, cores in span.places),
        )


@contextmanager
def sole_daemon(folder: StateFolder) -> Iterator[None]:
    """Inside, this process is the only daemon of a folder, and none of its processes outlives it.

    What a daemon that was killed may have left computing is ended first.
    """
    folder.make()
    # Mode w would erase the process id of the daemon that holds the lock.
    with folder.lock.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise JobError(
                f"a daemon with process id {lock.read().strip()} has the jobs in {folder.path}; "
                "submit to it (tvm-ios jobs submit FILE), end it, or set TVM_IOS_CACHE_DIR to "
                "another folder"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        mark = folder.mark
        end_processes(mark, DAEMON_MARK)
        before = os.environ.get(DAEMON_MARK)
        os.environ[DAEMON_MARK] = mark
        guard = start_guard(mark, DAEMON_MARK)
        try:
            yield
        finally:
            end_processes(mark, DAEMON_MARK)
            guard.kill()  # whatever has become of its mark, nobody waits for it for ever
            guard.wait()
            if before is None:
                del os.environ[DAEMON_MARK]
            else:
                os.environ[DAEMON_MARK] = before
            with suppress(OSError):
                lock.truncate(0)
