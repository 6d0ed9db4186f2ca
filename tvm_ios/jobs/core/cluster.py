"""Several machines as one: each node has a scheduler of its own, and jobs that wait are dealt out.

A job's worker, its cores and its device are on one node, so only jobs without a worker move. A node
that is lost gives its jobs back; they go on from their records on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm_ios.errors import JobError, UnknownJobError
from tvm_ios.jobs.core import events
from tvm_ios.jobs.core.commands import Command, JobChanged, StartWorker
from tvm_ios.jobs.core.job_state import JobSpec, JobState
from tvm_ios.jobs.core.resources import Device, Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.support.stage_gate import JobProgress

__all__ = ["Cluster"]

_EPOCHS = 1 << 32
"""Leases that one scheduler may give: the next one's begin after these, so that no release of a
node that was lost is taken for one of now."""


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job between nodes. While a node has it, that node's scheduler knows the rest."""

    spec: JobSpec
    number: int
    node: str = ""
    """The node that has it, or had it when it ended; empty: it waits for one."""
    progress: JobProgress | None = None
    attempts: int = 0
    """Workers started for it on nodes that were lost."""
    cancelled: bool = False
    ended: JobStatus | None = None
    """Final status, where no scheduler knows the job any more."""


class Cluster:
    """Jobs of several nodes, with the interface of a :class:`Scheduler`.

    Devices are those that are known before their nodes join. ``make`` makes a node's scheduler from
    its machine and the epoch after which its leases begin. Numbers of cores must differ from node
    to node.
    """

    def __init__(
        self, devices: Iterable[Device], make: Callable[[Machine, int], Scheduler]
    ) -> None:
        self._make = make
        self._jobs: dict[str, _Job] = {}
        self._waiting: dict[str, _Job] = {}
        """Jobs that no node has, in the order of submission."""
        self._open: set[str] = set()
        """Jobs that have not ended."""
        self._nodes: dict[str, Scheduler] = {}
        """Nodes that are there."""
        self._machines: dict[str, Machine] = {}
        """Machines of all nodes that have ever been there."""
        self._homes = {device.name: device.node for device in devices}
        """The node of each device."""
        self._joins = 0
        self._now = 0.0
        of_job, of_device = self._tell_node_of_job, self._tell_node_of_device
        self._handlers: Mapping[type, Callable[[Any], list[Command]]] = {
            events.JobSubmitted: self._submitted,
            events.JobCancelled: self._cancelled,
            events.NodeJoined: self._joined,
            events.NodeLost: self._lost,
            events.ProgressTold: self._told,
            events.StageRequested: of_job,
            events.StageReleased: of_job,
            events.JobEnded: of_job,
            events.WorkerDied: of_job,
            events.RePinned: of_job,
            events.DeviceLost: of_device,
            events.DeviceBack: of_device,
            events.Tick: self._ticked,
        }

    def handle(self, event: events.Event, now: float) -> tuple[Command, ...]:
        """Take note of an event, and say what to do now; as :meth:`Scheduler.handle`."""
        self._now = now
        commands = self._handlers[type(event)](event)
        return (*commands, *self._deal())

    @property
    def machine(self) -> Machine:
        """The machine that all nodes that have ever been there make up."""
        machines = self._machines.values()
        return Machine(
            cores=tuple(core for machine in machines for core in machine.cores),
            devices=tuple(device for machine in machines for device in machine.devices),
        )

    @property
    def wake_at(self) -> float | None:
        """Time to say `Tick`, if nothing else has happened; None: never."""
        times = [node.wake_at for node in self._nodes.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def all_ended(self) -> bool:
        """Whether no job waits or runs."""
        return not self._open

    def snapshot(self, now: float) -> tuple[JobStatus, ...]:
        """Statuses of all jobs, in the order of submission."""
        present = {
            status.name: status for node in self._nodes.values() for status in node.snapshot(now)
        }
        return tuple(self._status(job, present.get(name)) for name, job in self._jobs.items())

    # ---- Jobs ----

    def _submitted(self, event: events.JobSubmitted) -> list[Command]:
        spec = event.spec
        if not spec.name or spec.name in self._jobs:
            raise JobError(f"job {spec.name!r}: give each job a name of its own")
        if spec.device and spec.device not in self._homes:
            raise JobError(
                f"job {spec.name!r}: there is no device {spec.device!r}; there are: "
                f"{list(self._homes)}"
            )
        job = _Job(spec=spec, number=len(self._jobs))
        self._jobs[spec.name] = self._waiting[spec.name] = job
        self._open.add(spec.name)
        return [JobChanged(spec.name, JobState.WAITING)]

    def _cancelled(self, event: events.JobCancelled) -> list[Command]:
        job = self._job(event.job)
        # The wish is kept here as well: the node may be lost before its worker has ended.
        job.cancelled = True
        if event.job in self._waiting:
            return self._end_cancelled(job)
        return self._tell_node_of_job(event)

    def _told(self, event: events.ProgressTold) -> list[Command]:
        self._job(event.job).progress = event.progress
        return self._tell_node_of_job(event)

    def _tell_node_of_job(self, event: Any) -> list[Command]:
        """Hand an event to the node that has its job; from one that was lost it comes too late."""
        node = self._job(event.job).node
        return self._tell(node, event) if node in self._nodes else []

    def _end_cancelled(self, job: _Job) -> list[Command]:
        name = job.spec.name
        job.ended = replace(self._status(job, None), state=JobState.CANCELLED, waits_for="")
        self._waiting.pop(name, None)
        self._open.discard(name)
        return [JobChanged(name, JobState.CANCELLED)]

    def _job(self, name: str) -> _Job:
        job = self._jobs.get(name)
        if job is None:
            raise UnknownJobError(f"there is no job {name!r}; submit it first")
        return job

    def _status(self, job: _Job, present: JobStatus | None) -> JobStatus:
        if job.ended is not None:
            return job.ended
        if present is not None:
            return replace(present, attempt=present.attempt + job.attempts)
        told = JobStatus.told(job.spec, JobState.WAITING, job.progress or JobProgress(trials=0))
        device = job.spec.device
        is_gone = bool(device) and self._homes[device] not in self._nodes
        return replace(
            told,
            waits_for=f"device {device}, whose node is lost" if is_gone else "a node",
            attempt=job.attempts,
        )

    # ---- Nodes ----

    def _joined(self, event: events.NodeJoined) -> list[Command]:
        name, machine = event.node, event.machine
        if name in self._nodes:
            raise JobError(f"node {name!r} joins twice; give each node a name of its own")
        for device in machine.devices:
            home = self._homes.get(device.name, name)
            if home != name:
                raise JobError(f"device {device.name!r} is on node {home!r}, and on {name!r} too")
        self._nodes[name] = self._make(machine, self._joins * _EPOCHS)
        self._machines[name] = machine
        self._homes |= {device.name: name for device in machine.devices}
        self._joins += 1
        return []

    def _lost(self, event: events.NodeLost) -> list[Command]:
        """Take the jobs of a node back; nobody is blamed, and what was measured is kept."""
        node = self._nodes.pop(event.node, None)
        if node is None:
            return []
        commands: list[Command] = []
        for status in node.snapshot(self._now):
            job = self._jobs[status.name]
            if status.state.ended:
                job.ended = replace(status, attempt=status.attempt + job.attempts)
                continue
            job.node = ""
            job.attempts += status.attempt
            if job.cancelled:
                commands += self._end_cancelled(job)
                continue
            self._waiting[status.name] = job
            commands.append(JobChanged(status.name, JobState.WAITING))
        # Jobs that come back are older than most that wait, and the oldest are dealt first.
        ordered = sorted(self._waiting.values(), key=lambda job: job.number)
        self._waiting = {job.spec.name: job for job in ordered}
        return commands

    def _tell_node_of_device(self, event: Any) -> list[Command]:
        home = self._homes.get(event.device)
        if home is None:
            raise JobError(f"there is no device {event.device!r}; there are: {list(self._homes)}")
        return self._tell(home, event) if home in self._nodes else []

    def _ticked(self, event: events.Tick) -> list[Command]:
        return [command for node in tuple(self._nodes) for command in self._tell(node, event)]

    def _tell(self, node: str, event: events.Event) -> list[Command]:
        commands = self._nodes[node].handle(event, self._now)
        return [self._with_node(node, command) for command in commands]

    def _with_node(self, node: str, command: Command) -> Command:
        if isinstance(command, JobChanged) and command.state.ended:
            self._open.discard(command.job)
        if isinstance(command, StartWorker):
            earlier = self._jobs[command.job].attempts
            return replace(command, node=node, attempt=command.attempt + earlier)
        return command

    # ---- Dealing ----

    def _deal(self) -> Iterator[Command]:
        """Give jobs that wait to nodes that may start a worker, the oldest job first."""
        for name, job in tuple(self._waiting.items()):
            places = [node for node in self._nodes if self._has_place(node, job.spec)]
            if not places:
                if not any(node.free_workers > 0 for node in self._nodes.values()):
                    return
                continue
            node = min(places, key=self._crowd)
            del self._waiting[name]
            job.node = node
            for command in self._tell(node, events.JobSubmitted(job.spec)):
                if command != JobChanged(name, JobState.WAITING):  # it has waited before
                    yield command
            # Else the new node would take it for a job that has just begun.
            if job.progress is not None:
                yield from self._tell(node, events.ProgressTold(name, job.progress))

    def _has_place(self, node: str, spec: JobSpec) -> bool:
        fits = any(map(spec.wish.takes, self._machines[node].devices))
        return fits and self._nodes[node].free_workers > 0

    def _crowd(self, node: str) -> float:
        """Jobs that a node has for each of its devices."""
        jobs = sum(self._jobs[name].node == node for name in self._open)
        return jobs / len(self._machines[node].devices)
