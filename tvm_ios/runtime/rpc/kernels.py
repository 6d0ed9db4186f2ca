"""Kernels on a device of an RPC tracker: their file, their parameters, their prepared calls.

The twin of :mod:`tvm_ios.runtime.base.loaded_plan`: the device gets the image of a plan, and
prepares the calls itself (``native/remote_lanes.c``).
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.plan import ALIGNMENT_BYTES, ExecutionPlan
from tvm_ios.runtime.rpc.connection import Kind, RemoteConnection, pack_rows

__all__ = ["RemoteKernels", "RemoteMemory", "RemotePlan"]

LARGEST_SENT_BYTES = 1 << 16
"""Bytes above which float parameters are made up on the device; see :class:`RemoteKernels`."""
FLOATS = ("float32", "float64")


class RemoteMemory:
    """Zeroed memory on a device, freed some time after this object."""

    def __init__(self, connection: RemoteConnection, size_bytes: int) -> None:
        self.address = connection.allocate(size_bytes)
        # Not at exit: the session ends with this process, and all its memory with the session.
        weakref.finalize(self, connection.free_later, self.address).atexit = False


class RemotePlan:
    """A plan with its calls on a device, freed some time after this object, as ``kept`` is."""

    def __init__(self, connection: RemoteConnection, handle: int, count: int, kept: object) -> None:
        self.handle = handle
        self._first = int(connection.call("launches", handle))
        self._count = count
        self._size_bytes = connection.launch_bytes
        self._kept = kept
        weakref.finalize(self, connection.free_later, handle, Kind.PLAN).atexit = False

    def launch(self, number: int, *, unsplit: bool = False) -> int:
        """Address of a call; with ``unsplit`` of its twin that idle lanes do not help with."""
        return self._first + (number + self._count * unsplit) * self._size_bytes


class RemoteKernels:
    """Kernels of one exported file on a device, and their parameters.

    All models there share the parameters. Large ones are not sent: the device makes up numbers of
    the same mean and spread, none of them a denormal, with which no kernel takes another time.
    Everything else, such as integers, is sent unchanged.
    """

    def __init__(self, connection: RemoteConnection, path: Path, params: Mapping[str, Any]) -> None:
        self.connection = connection
        self._path = connection.load(path)
        offsets, size_bytes = {}, 0
        arrays = {name: _as_numpy(value) for name, value in params.items()}
        for name, array in arrays.items():
            offsets[name] = size_bytes
            size_bytes += _aligned(array.nbytes)
        self._params = RemoteMemory(connection, size_bytes)
        self._addresses = {name: self._params.address + begin for name, begin in offsets.items()}
        self._send(arrays)

    def place(self, plan: ExecutionPlan) -> tuple[list[int], RemoteMemory]:
        """Address of every buffer of a plan, and the memory that holds all but parameters."""
        parameters = {
            plan.tensors[entry.tensor].buffer: self._addresses[entry.name]
            for entry in plan.inputs
            if entry.name in self._addresses
        }
        offsets, size_bytes = [], plan.arena_bytes
        for index, buffer in enumerate(plan.buffers):
            if buffer.arena_offset is not None:
                offsets.append(buffer.arena_offset)
                continue
            offsets.append(size_bytes)
            if index not in parameters:
                size_bytes += _aligned(buffer.size_bytes)
        memory = RemoteMemory(self.connection, size_bytes)
        addresses = [
            parameters.get(index, memory.address + offset) for index, offset in enumerate(offsets)
        ]
        return addresses, memory

    def scatter(self, plan: ExecutionPlan, addresses: Sequence[int]) -> None:
        """Fill every float tensor that is no parameter with multiples of 1/64 in [-1, 1]."""
        bound = {
            plan.tensors[entry.tensor].buffer
            for entry in plan.inputs
            if entry.name in self._addresses
        }
        fills = [
            _Fill(addresses[tensor.buffer] + tensor.byte_offset, tensor.size_bytes, tensor.dtype)
            for tensor in plan.tensors
            if tensor.buffer not in bound and tensor.dtype in FLOATS
        ]
        self._fill(fills)

    def load(self, plan: ExecutionPlan, addresses: Sequence[int], kept: object) -> RemotePlan:
        """A plan with its calls, whose buffers lie at addresses; ``kept`` lives as long as it."""
        image = bytearray(image_bytes(plan))
        handle = int(self.connection.call("plan", self._path, image, pack_rows(addresses)))
        return RemotePlan(self.connection, handle, len(plan.launches), (kept, self))

    def _send(self, arrays: Mapping[str, np.ndarray]) -> None:
        fills = []
        for name, array in arrays.items():
            if array.nbytes <= LARGEST_SENT_BYTES or str(array.dtype) not in FLOATS:
                self.connection.write(self._addresses[name], array.tobytes())
                continue
            centre, spread = float(array.mean()), float(array.std())
            # Evenly spread numbers of this width have the same standard deviation.
            width = 3**0.5 * spread
            fills.append(
                _Fill(self._addresses[name], array.nbytes, str(array.dtype), centre, width)
            )
        self._fill(fills)

    def _fill(self, fills: Sequence[_Fill]) -> None:
        self.connection.call("fill", bytearray(b"".join(fill.packed() for fill in fills)))


@dataclass(frozen=True, slots=True)
class _Fill:
    """A range of floats that the device makes up."""

    address: int
    size_bytes: int
    dtype: str
    centre: float = 0.0
    half_width: float = 1.0

    def packed(self) -> bytes:
        bits = 32 if self.dtype == "float32" else 64
        count = self.size_bytes * 8 // bits
        return struct.pack("<qqqdd", self.address, count, bits, self.centre, self.half_width)


def _as_numpy(value: Any) -> np.ndarray:
    return value.numpy() if isinstance(value, tvm.nd.NDArray) else np.asarray(value)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
