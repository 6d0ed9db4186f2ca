"""The agent of a node: the local executor's agent, asked and told in lines of JSON.

It runs inside an actor. Ray gives it a place, carries its lines, and tells when it has died; what
its workers compute, and on which cores, is none of Ray's business.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.jobs.core.commands import Command
from tvm_ios.jobs.core.events import Event
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.local.agent import LocalAgent
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.state_folder import DAEMON_MARK
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.tuning.guard import end_processes, start_guard

__all__ = ["NodeAgent", "TakeOrder", "ToNode"]

_OF_RAY = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Variables by which Ray keeps what asked for no core and no GPU off them."""


@dataclass(frozen=True, slots=True)
class TakeOrder:
    """The order that `StartWorker` of this name will be about."""

    order: JobOrder


ToNode = TakeOrder | Command


class NodeAgent:
    """The workers of one node. All methods run in one event loop, and none blocks it for long.

    The folder gets one for each job, on a file system that all nodes share. All processes of the
    node's workers carry the mark, and none outlives the agent.
    """

    def __init__(self, folder: str, mark: str, environment: Mapping[str, str]) -> None:
        for name in _OF_RAY:
            os.environ.pop(name, None)
        os.environ.update(environment)
        self._folder = Path(folder)
        self._mark = mark
        self._said: asyncio.Queue[str] = asyncio.Queue()
        self._agent: LocalAgent | None = None
        end_processes(mark, DAEMON_MARK)  # what an agent before may have left
        os.environ[DAEMON_MARK] = mark
        start_guard(mark, DAEMON_MARK)

    async def cores(self) -> tuple[int, ...]:
        """Cores that its workers may use: those that Ray's own processes there have."""
        return tuple(sorted(os.sched_getaffinity(0)))

    async def begin(self, machine: str) -> None:
        """Take a machine over, its cores numbered as on this node."""
        self._agent = LocalAgent(from_json(Machine, machine, "a machine"), self._folder, self._say)

    async def obey(self, lines: Sequence[str]) -> None:
        """Obey commands, in this order."""
        agent = self._agent
        assert agent is not None  # whoever sends commands has begun
        for line in lines:
            command = from_json(ToNode, line, "a command")
            if isinstance(command, TakeOrder):
                agent.accept(command.order)
            else:
                agent.obey(command)

    async def said(self) -> list[str]:
        """Events since the last call, once there are any."""
        lines = [await self._said.get()]
        while not self._said.empty():
            lines.append(self._said.get_nowait())
        return lines

    async def close(self) -> None:
        """End all workers."""
        if self._agent is not None:
            await self._agent.close()
        await asyncio.to_thread(end_processes, self._mark, DAEMON_MARK)

    def _say(self, event: Event) -> None:
        self._said.put_nowait(to_json(Event, event))
