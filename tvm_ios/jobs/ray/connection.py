"""The connection to a Ray cluster: its nodes, and an agent on each that jobs may use."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.device_tables import usual_device
from tvm_ios.jobs.ray.node_agent import NodeAgent
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.support.extras import install_command
from tvm_ios.support.json_nouns import to_json

# Read when Ray is imported.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise JobError(
        f'executor = "ray" needs Ray, which cannot be imported ({error}); run: '
        + install_command("ray")
    ) from error

__all__ = ["Hiring", "Node", "RayHead", "connected", "node_mark"]

_CARRIED = ("TVM_", "PYTHONPATH")
"""Beginnings of names of variables that workers get from the daemon."""
_ANSWER_S = 2.0
"""Time in which a head takes a connection, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with an agent."""

    name: str
    id: str
    """Ray's name for this life of the node."""
    agent: Any
    cores: tuple[int, ...]
    """Cores by the node's own numbers; the scheduler's are those of the machine, in this order."""
    machine: Machine

    def own_cores(self, cores: tuple[int, ...]) -> tuple[int, ...]:
        """Cores as they are numbered on the node."""
        return tuple(self.cores[self.machine.cores.index(core)] for core in cores)


@dataclass(frozen=True, slots=True)
class RayHead:
    """The head of a cluster, without which no node comes or goes, and no agent begins."""

    address: str

    async def answers(self) -> bool:
        """Whether it takes connections.

        Ray's own calls wait for a head that has gone, and end the process after a minute.
        """
        host, _, port = self.address.rpartition(":")
        try:
            _, writer = await asyncio.wait_for(
                asyncio.open_connection(host.strip("[]"), int(port)), _ANSWER_S
            )
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True


@contextmanager
def connected(address: str) -> Iterator[RayHead]:
    """Inside, this process is a driver of the cluster; it starts none. Gives the cluster's head."""
    try:
        # Ray has its workers import from the folder that a driver is in, before any other.
        with chdir("/"):
            ray.init(
                address=address or "auto",
                namespace="tvm-ios",
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise JobError(
            f"no Ray cluster answers at {address or 'auto'!r}: {' '.join(str(error).split())}; "
            "start one: ray start --head --node-name=NAME --include-dashboard=false "
            "--disable-usage-stats"
        ) from error
    try:
        yield RayHead(ray.get_runtime_context().gcs_address)
    finally:
        ray.shutdown()


class Hiring:
    """Finds nodes that jobs may use, and starts an agent on each.

    Where a file names no devices, the last core of each node with processors is one, named after
    the node.
    """

    def __init__(self, devices: tuple[Device, ...], folder: StateFolder) -> None:
        self._devices = devices
        self._folder = folder
        self._firsts: dict[tuple[str, int], int] = {}
        """The number of a node's first core among the cores of all, by name and number of cores."""
        self._next = 0

    def nodes(self) -> dict[str, str]:
        """Names of nodes that are alive and that jobs may use, by Ray's ids.

        It never comes back where the head goes meanwhile.
        """
        wanted = {device.node for device in self._devices}
        listed: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return {
            node["NodeID"]: node["NodeName"]
            for node in listed
            if node["Alive"]
            and (node["NodeName"] in wanted if wanted else node["Resources"].get("CPU"))
        }

    async def hire(self, node_id: str, name: str) -> Node:
        """Start an agent on a node.

        Raises
        ------
        JobError
            If its cores do not fit the devices that are said to be there.
        ray.exceptions.RayError
            If the node goes away meanwhile.
        """
        carried = {key: os.environ[key] for key in os.environ if key.startswith(_CARRIED)}
        here = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        # No processor of Ray's books: leases are ours, and it would count them twice.
        actor = ray.remote(num_cpus=0, max_restarts=0)(NodeAgent)
        agent: Any = actor.options(scheduling_strategy=here).remote(
            str(self._folder.jobs.resolve()), node_mark(self._folder, name), carried
        )
        try:
            cores = await agent.cores.remote()
            own = Machine(cores=cores, devices=self._devices_of(name, cores))
            await agent.begin.remote(to_json(Machine, own))
        except BaseException:
            ray.kill(agent)
            raise
        return Node(
            name=name, id=node_id, agent=agent, cores=cores, machine=self._numbered(name, own)
        )

    def _devices_of(self, name: str, cores: tuple[int, ...]) -> tuple[Device, ...]:
        if not self._devices:
            return (usual_device(cores, name),)
        return tuple(
            device
            if device.core is not None or device.kind is not DeviceKind.CORE
            else replace(device, core=cores[-1])
            for device in self._devices
            if device.node == name
        )

    def _numbered(self, name: str, own: Machine) -> Machine:
        """A node's machine with numbers of cores that no other node has; the same ones each time.

        Others that come back with another number of cores get new ones.
        """
        key = name, len(own.cores)
        if key not in self._firsts:
            self._firsts[key] = self._next
            self._next += len(own.cores)
        numbers = dict(zip(own.cores, range(self._firsts[key], self._next), strict=False))
        return Machine(
            cores=tuple(numbers.values()),
            devices=tuple(
                replace(device, core=None if device.core is None else numbers[device.core])
                for device in own.devices
            ),
        )


def node_mark(folder: StateFolder, node: str) -> str:
    """The mark that all processes of a node's workers carry in their environment."""
    return f"{folder.mark}.{node}"
