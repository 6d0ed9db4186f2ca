"""Lanes on a device of an RPC tracker, which programs are run on as on lanes of this process."""

from __future__ import annotations

from tvm_ios.runtime.base.lane_pool import LaneOptions, LanePool, require_lanes
from tvm_ios.runtime.rpc.code import RemoteRuntime

__all__ = ["RemotePool"]


class RemotePool(LanePool):
    """W lanes on a device; every method raises CostError if it is lost."""

    def __init__(self, runtime: RemoteRuntime, lanes: int) -> None:
        self._connection = runtime.connection
        self.place = self._connection.place
        super().__init__(runtime, lanes)
        self._waited_ns = None  # run delay is that of threads of this machine

    def _create(self, options: LaneOptions, _get_last_error: int) -> int | None:
        """Native pool on the cores of the device's server; None without memory."""
        device = self._connection.address.as_text()
        require_lanes(self.lanes, self._connection.cores, f"{device} has")
        spin_ns = options.spin_us * 1000
        return int(self._connection.call("pool", self.lanes, options.tasks_per_lane, spin_ns))
