"""The workers of a Ray cluster: lines to and from the agents of its nodes, and who is there.

Ray says which nodes there are and when an agent has died. What a node's agent is told is sent in
order, one call after the other, since Ray promises no order among calls of one actor.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import ray
from ray.exceptions import RayError

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.commands import (
    GrantLease,
    RePinLease,
    RevokeLease,
    StartWorker,
    StopWorker,
)
from tvm_ios.jobs.core.events import Event, NodeJoined, NodeLost
from tvm_ios.jobs.executor import Workers
from tvm_ios.jobs.ray.connection import Hiring, Node, RayHead
from tvm_ios.jobs.ray.node_agent import TakeOrder, ToNode
from tvm_ios.support.json_nouns import from_json, to_json

__all__ = ["RayWorkers"]

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_LOOK_S = 1.0
_GONE_S = 2.0
"""Time after an agent's death until nothing of its workers is left: its guard looks twice a second.
A job that begins elsewhere before would write the same records twice."""
_CLOSE_S = 20.0
"""Time in which agents end their workers, seconds."""
HEAD_SILENT_S = 10.0
"""Time for which a head may be silent, seconds; Ray's own limit is 60, and ends the process."""


@dataclass(slots=True, eq=False)
class _Line:
    """A node, and what it is to be told."""

    node: Node
    todo: asyncio.Queue[ToNode] = field(default_factory=asyncio.Queue)


class RayWorkers(Workers):
    """Workers on all nodes that jobs may use: those that have agents, and those that join.

    ``say`` and ``fail`` are the arguments of :data:`~tvm_ios.jobs.executor.MakeWorkers`.
    """

    def __init__(
        self,
        hiring: Hiring,
        head: RayHead,
        nodes: Iterable[Node],
        say: Callable[[Event], None],
        fail: Callable[[Exception], None],
    ) -> None:
        super().__init__(
            {
                StartWorker: self._start,
                StopWorker: lambda command: self._send(command.job, command),
                RevokeLease: lambda command: self._send(command.job, command),
                GrantLease: self._grant,
                RePinLease: self._repin,
            }
        )
        self._hiring = hiring
        self._head = head
        self._say = say
        self._fail = fail
        self._places: dict[str, _Line] = {}
        """Node that has the worker of each job."""
        self._lines: dict[str, _Line] = {}
        """Nodes with an agent, by Ray's ids."""
        self._refused: set[str] = set()
        for node in nodes:
            self._tend(node)
        self._spawn(self._look())
        self._spawn(self._watch_head())

    async def close(self) -> None:
        """End all workers and agents."""
        self._say = lambda _: None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        agents = [line.node.agent for line in self._lines.values()]
        closing = (agent.close.remote() for agent in agents)
        with suppress(TimeoutError):  # of an agent that died when no head told of it
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _CLOSE_S)
        for agent in agents:
            ray.kill(agent)

    # ---- Commands ----

    def _start(self, command: StartWorker) -> None:
        lines = (line for line in self._lines.values() if line.node.name == command.node)
        line = next(lines, None)
        if line is None:
            return  # it has gone, which is about to be told
        self._places[command.job] = line
        self._send(command.job, TakeOrder(self._orders[command.job]))
        self._send(command.job, command)

    def _grant(self, command: GrantLease) -> None:
        lease = command.lease
        line = self._places.get(lease.job)
        if line is not None:
            own = replace(lease, cores=line.node.own_cores(lease.cores))
            line.todo.put_nowait(GrantLease(own))

    def _repin(self, command: RePinLease) -> None:
        line = self._places.get(command.job)
        if line is not None:
            line.todo.put_nowait(replace(command, cores=line.node.own_cores(command.cores)))

    def _send(self, job: str, command: ToNode) -> None:
        line = self._places.get(job)
        if line is not None:
            line.todo.put_nowait(command)

    # ---- Nodes ----

    async def _look(self) -> None:
        """Start agents on nodes that have joined."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with suppress(RayError):
                there = await _answered(self._hiring.nodes)
                known = {*self._lines, *self._refused}
                names = {line.node.name for line in self._lines.values()}
                for node_id, name in there.items():
                    # One of a name that is there already is the same one's next life.
                    if node_id not in known and name not in names:
                        await self._join(node_id, name)

    async def _watch_head(self) -> None:
        """Give up once the head has been silent for a while: Ray ends this process soon after."""
        heard = time.monotonic()
        while time.monotonic() - heard < HEAD_SILENT_S:
            await asyncio.sleep(_LOOK_S)
            if await self._head.answers():
                heard = time.monotonic()
        self._fail(
            JobError(
                f"the head of the Ray cluster at {self._head.address} has not answered for "
                f"{HEAD_SILENT_S:.0f} s; what was measured is kept: start the head and its nodes "
                "again, and jobs go on with the same command"
            )
        )

    async def _join(self, node_id: str, name: str) -> None:
        try:
            node = await self._hiring.hire(node_id, name)
        except JobError as error:
            self._refused.add(node_id)
            _LOG.warning("node %s is of no use: %s", name, error)
            return
        _LOG.warning("node %s has joined", name)
        self._tend(node)
        self._say(NodeJoined(name, node.machine))

    def _tend(self, node: Node) -> None:
        line = self._lines[node.id] = _Line(node)
        self._spawn(self._live(line))

    async def _live(self, line: _Line) -> None:
        """Live with an agent until its workers are gone with it."""
        halves = [asyncio.ensure_future(each) for each in (self._tell(line), self._hear(line))]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            ends = await asyncio.gather(*halves, return_exceptions=True)
        why = next(type(end).__name__ for end in ends if isinstance(end, Exception))
        _LOG.warning("node %s is lost (%s)", line.node.name, why)
        ray.kill(line.node.agent)
        await asyncio.sleep(_GONE_S)
        self._places = {job: at for job, at in self._places.items() if at is not line}
        del self._lines[line.node.id]
        self._say(NodeLost(line.node.name))

    async def _tell(self, line: _Line) -> None:
        while True:
            commands = [await line.todo.get()]
            while not line.todo.empty():
                commands.append(line.todo.get_nowait())
            await line.node.agent.obey.remote([to_json(ToNode, each) for each in commands])

    async def _hear(self, line: _Line) -> None:
        while True:
            said: Sequence[str] = await line.node.agent.said.remote()
            for event in said:
                self._say(from_json(Event, event, "an event"))


async def _answered(ask: Callable[[], _T]) -> _T:
    """The answer to a question of Ray, from a thread for which no process waits at its end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_T] = loop.create_future()

    def tell(said: Callable[[], None]) -> None:
        if not answer.done():  # nobody waits for it any more
            said()

    def run() -> None:
        try:
            found = ask()
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            said = partial(answer.set_exception, error)
        else:
            said = partial(answer.set_result, found)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, said)

    threading.Thread(target=run, daemon=True).start()
    return await answer
