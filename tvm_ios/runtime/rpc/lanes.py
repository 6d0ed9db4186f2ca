"""Lanes on a device of an RPC tracker: the twin of :mod:`tvm_ios.runtime.base.lane_pool`."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain

from tvm_ios.errors import CostError
from tvm_ios.runtime.base.lane_pool import LaneOptions, LaunchFailedError, join_rows, require_lanes
from tvm_ios.runtime.rpc.connection import Kind, RemoteConnection, pack_rows
from tvm_ios.runtime.rpc.kernels import RemotePlan

__all__ = ["RemoteLanes", "RemoteProgram"]


class RemoteProgram:
    """Groups of prepared calls with their order, freed some time after this object."""

    def __init__(self, connection: RemoteConnection, address: int) -> None:
        self.address = address
        weakref.finalize(self, connection.free_later, address, Kind.PROGRAM).atexit = False


class RemoteLanes:
    """W lanes on a device, started by the first run; OptionError if it has fewer cores.

    Every method raises CostError if the device is lost.
    """

    def __init__(self, connection: RemoteConnection, lanes: int) -> None:
        options = LaneOptions()
        lanes = require_lanes(lanes, connection.cores, f"{connection.address.as_text()} has")
        self.connection = connection
        self.lanes = lanes
        self._pool = connection.call("pool", lanes, options.tasks_per_lane, options.spin_us * 1000)
        self._closed = False

    def program(
        self,
        groups: Sequence[Sequence[int]],
        successors: Sequence[Iterable[int]],
        *,
        homes: Sequence[int],
    ) -> RemoteProgram:
        """Prepare groups of calls to run by dependencies, as :class:`LanePool` does here.

        No group is empty.
        """
        self.connection.free()
        launches, rows = join_rows(groups, "Q")
        edges, edge_rows = join_rows(successors, "i")
        lanes = (home % self.lanes for home in homes)
        counts = (len(groups), len(launches), len(edges), self.lanes)
        # The order in which remote_lanes.c reads them.
        numbers = chain(counts, launches, rows, edge_rows, lanes, edges)
        return RemoteProgram(
            self.connection, int(self.connection.call("program", pack_rows(numbers)))
        )

    def plan_program(self, plan: RemotePlan) -> RemoteProgram:
        """Prepare all groups of a plan to run by dependencies."""
        self.connection.free()
        made = self.connection.call("plan_program", plan.handle, self.lanes)
        return RemoteProgram(self.connection, int(made))

    def time_ns(self, program: RemoteProgram, number: int) -> int:
        """Nanoseconds of `number` back-to-back runs, by the clock of the device.

        Extrapolated from the runs of the first quarter of a second.
        """
        elapsed_ns = int(self.connection.call("time", self._pool, program.address, number))
        if elapsed_ns < 0:
            raise LaunchFailedError(-1 - elapsed_ns, self.connection.text("failure"))
        return elapsed_ns

    def ping_pong_ns(self, rounds: int = 500) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 with one lane."""
        return float(self.connection.call("ping_pong", self._pool, rounds))

    def close(self) -> None:
        """Join the threads; may be called twice, and after the connection is closed."""
        if not self._closed:
            self._closed = True
            with suppress(CostError):  # a device that is lost has no threads
                self.connection.call("close_pool", self._pool)
