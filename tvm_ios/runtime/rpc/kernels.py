"""Kernels on a device of an RPC tracker: their file, their parameters, their prepared calls.

The twin of :mod:`tvm_ios.runtime.base.kernel_arguments`: calls are described in numbers here, and
prepared on the device by ``native/remote_lanes.c``.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_ios.plan.plan import ALIGNMENT_BYTES, ExecutionPlan, Launch
from tvm_ios.runtime.base.tvm_abi import data_type_fields
from tvm_ios.runtime.rpc.connection import RemoteConnection, pack_rows

__all__ = ["RemoteKernels", "RemoteLaunches", "RemoteMemory"]

LARGEST_SENT_BYTES = 1 << 16
"""Bytes above which float parameters are made up on the device; see :class:`RemoteKernels`."""
FLOATS = ("float32", "float64")


class RemoteMemory:
    """Zeroed memory on a device, freed some time after this object."""

    def __init__(self, connection: RemoteConnection, size_bytes: int) -> None:
        self.address = connection.allocate(size_bytes)
        # Not at exit: the session ends with this process, and all its memory with the session.
        weakref.finalize(self, connection.free_later, self.address).atexit = False


class RemoteLaunches:
    """Prepared calls on a device, freed some time after this object.

    The calls lie side by side from the first one's address on.
    """

    def __init__(self, connection: RemoteConnection, first: int, kept: object) -> None:
        self._first = first
        self._size_bytes = connection.launch_bytes
        self._kept = kept
        weakref.finalize(self, connection.free_later, first).atexit = False

    def address(self, index: int) -> int:
        """The address of a call on the device."""
        return self._first + index * self._size_bytes


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
        """Address of every tensor of a plan, and the memory that holds all but parameters."""
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
            parameters.get(tensor.buffer, memory.address + offsets[tensor.buffer])
            + tensor.byte_offset
            for tensor in plan.tensors
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
            _Fill(address, tensor.size_bytes, tensor.dtype)
            for tensor, address in zip(plan.tensors, addresses, strict=True)
            if tensor.buffer not in bound and tensor.dtype in FLOATS
        ]
        self._fill(fills)

    def launches(
        self,
        plan: ExecutionPlan,
        addresses: Sequence[int],
        calls: Sequence[tuple[Launch, bool]],
        kept: object,
    ) -> RemoteLaunches:
        """Prepared calls of launches of a plan, over tensors at given addresses.

        Each launch comes with True if it stays on one lane; ``kept`` lives as long as the calls.
        """
        names = sorted({launch.kernel for launch, _ in calls})
        numbers = pack_rows(_description(plan, addresses, calls, names))
        first = int(self.connection.call("launches", self._path, "\n".join(names), numbers))
        return RemoteLaunches(self.connection, first, (kept, self))

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


def _description(
    plan: ExecutionPlan,
    addresses: Sequence[int],
    calls: Sequence[tuple[Launch, bool]],
    names: Sequence[str],
) -> Iterator[int]:
    """Rows of numbers for ``tvm_ios_remote_launches``: calls, and the tensors they name."""
    number = {name: index for index, name in enumerate(names)}
    arguments = [(*launch.inputs, *launch.outputs) for launch, _ in calls]
    yield len(calls)
    yield sum(map(len, arguments))
    yield len(plan.tensors)
    yield sum(len(tensor.shape) for tensor in plan.tensors)
    yield max(map(len, arguments), default=0)
    for tensor, address in zip(plan.tensors, addresses, strict=True):
        yield from (address, *data_type_fields(tensor.dtype), len(tensor.shape), *tensor.shape)
    for (launch, serial), tensors in zip(calls, arguments, strict=True):
        yield from (number[launch.kernel], int(serial), len(tensors), *tensors)


def _as_numpy(value: Any) -> np.ndarray:
    return value.numpy() if isinstance(value, tvm.nd.NDArray) else np.asarray(value)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
