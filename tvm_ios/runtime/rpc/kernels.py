"""Kernels on a device of an RPC tracker: their file, their parameters, memory of their plans."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_ios.plan.plan import ALIGNMENT_BYTES, ExecutionPlan
from tvm_ios.runtime.base.loaded_plan import Kernel, LoadedPlan
from tvm_ios.runtime.base.native_runtime import DLTensor
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, kernels_of
from tvm_ios.runtime.rpc.code import RemoteCode, RemoteRuntime
from tvm_ios.runtime.rpc.connection import RemoteConnection

__all__ = ["RemoteKernels", "RemoteMemory", "addresses_of", "load_there"]

LARGEST_SENT_BYTES = 1 << 16
"""Bytes above which float parameters are made up on the device; see :class:`RemoteKernels`."""
FLOATS = ("float32", "float64")


class RemoteMemory:
    """Zeroed memory on a device, freed some time after this object."""

    def __init__(self, connection: RemoteConnection, size_bytes: int) -> None:
        self.address = connection.allocate(size_bytes)
        # Not at exit: the session ends with this process, and all its memory with the session.
        free = RemoteCode(connection)["free"].address
        weakref.finalize(self, connection.free_later, free, self.address).atexit = False


class RemoteKernels:
    """Kernels of one exported file on a device, and their parameters.

    All models there share the parameters. Large ones are not sent: the device makes up numbers of
    the same mean and spread, none of them a denormal, with which no kernel takes another time.
    Everything else, such as integers, is sent unchanged.
    """

    def __init__(self, runtime: RemoteRuntime, path: Path, params: Mapping[str, Any]) -> None:
        self.runtime = runtime
        self.connection = runtime.connection
        self.code = RemoteCode(self.connection, self.connection.load(path))
        """The file, in which symbols of native code are looked up."""
        # Barriers inside regions: no launch may be split.
        self._serial = hasattr(self.code, "__TVMBackendParallelBarrier")
        self._found: dict[str, Kernel] = {}
        self._readers: weakref.WeakSet[LaunchCalls] = weakref.WeakSet()
        offsets, size_bytes = {}, 0
        arrays = {
            name: value.numpy() if isinstance(value, tvm.nd.NDArray) else np.asarray(value)
            for name, value in params.items()
        }
        for name, array in arrays.items():
            offsets[name] = size_bytes
            size_bytes += -(-array.nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._params = RemoteMemory(self.connection, size_bytes)
        self._addresses = {name: self._params.address + begin for name, begin in offsets.items()}
        self._send(arrays)

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name, by address; CostError if there is none."""
        if name not in self._found:
            address, function = self.connection.find(self.code.path, name), 0
            if not address:
                address = self.runtime.call_packed
                function = int(self.connection.call("packed", self.code.path, name))
            self._found[name] = Kernel(address, function, self._serial)
        return self._found[name]

    def places(self, plan: ExecutionPlan) -> dict[int, int]:
        """Address of the buffer of each parameter of a plan."""
        return {
            plan.tensors[entry.tensor].buffer: self._addresses[entry.name]
            for entry in plan.inputs
            if entry.name in self._addresses
        }

    def read_by(self, calls: LaunchCalls) -> None:
        """Take note of calls of operator libraries that keep what they made of parameters."""
        self._readers.add(calls)

    def written(self, name: str) -> None:
        """Have all calls read a parameter anew."""
        for calls in self._readers if name in self._addresses else ():
            calls.constants_changed()

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
        _fill(self.connection, fills)


def load_there(
    runtime: RemoteRuntime,
    plan: ExecutionPlan,
    kernels: RemoteKernels | None = None,
    calls: LaunchCalls | None = None,
    *,
    scattered: bool = False,
) -> tuple[LoadedPlan, object]:
    """A plan over memory of a device, and what must live as long.

    ``kernels`` have parameters and kernels; ``calls`` are made in place of some. All else is zero,
    but where ``scattered``: floats are then multiples of 1/64 in [-1, 1].
    """
    own = {} if kernels is None else kernels.places(plan)
    loaded = LoadedPlan(runtime, plan, own)
    memory = RemoteMemory(runtime.connection, loaded.place_all(own, 0))
    loaded.place_all(own, memory.address)
    if kernels is not None:
        loaded.bind(kernels_of(plan, kernels, calls, runtime.lane))
        if calls is not None:
            kernels.read_by(calls)
    if scattered:
        addresses = addresses_of(loaded, plan, runtime.connection)
        fills = [
            _Fill(address, tensor.size_bytes, tensor.dtype)
            for tensor, address in zip(plan.tensors, addresses, strict=True)
            if tensor.buffer not in own and tensor.dtype in FLOATS
        ]
        _fill(runtime.connection, fills)
    return loaded, (memory, kernels)


def addresses_of(
    loaded: LoadedPlan, plan: ExecutionPlan, connection: RemoteConnection
) -> list[int]:
    """Address of each tensor of a plan on a device."""
    table = DLTensor * len(plan.tensors)
    rows = connection.read(loaded.tensor(0), ctypes.sizeof(table))
    return [int(tensor.data or 0) for tensor in table.from_buffer_copy(rows)]


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


def _fill(connection: RemoteConnection, fills: Sequence[_Fill]) -> None:
    connection.call("fill", bytearray(b"".join(fill.packed() for fill in fills)))
