"""Loaded libraries on a device of an RPC tracker, whose functions are called as by ctypes here.

So whatever binds native code of this process binds the same code there: the lane executor, and the
calls of operator libraries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_int32, c_void_p
from functools import cached_property, partial
from typing import Any

from tvm_ios.errors import LostSessionError
from tvm_ios.runtime.base.native_runtime import NativeRuntime
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.runtime.rpc.connection import RemoteConnection

__all__ = ["RemoteCode", "RemoteRuntime"]

_ALIGNMENT_BYTES = 16
"""Boundary of what is lent to a function, which any C type fits."""
_FREED = ("plan_free", "program_free", "pool_free")


class RemoteFunction:
    """A C function there that takes integers, pointers and what they point at.

    What :func:`ctypes.byref` gives, and arrays of ctypes, are copied there and back; bytes only
    there. Nobody may keep their addresses.
    """

    def __init__(self, connection: RemoteConnection, address: int) -> None:
        self.address = address
        self.restype: Any = c_int
        self.argtypes: Sequence[Any] = ()
        self._connection = connection

    def __call__(self, *arguments: Any) -> Any:
        """Result of a call; CostError where the device is lost, unless there is no result."""
        lent, rows, received = bytearray(), [], []
        for argument in arguments:
            content = getattr(argument, "_obj", argument)  # what byref() points at
            if isinstance(content, bytes | ctypes.Array) or content is not argument:
                rows.append((True, len(lent)))
                received += [] if isinstance(content, bytes) else [(len(lent), content)]
                lent += bytes(content)
                lent += bytes(-len(lent) % _ALIGNMENT_BYTES)
            else:
                rows.append((False, int(getattr(argument, "value", argument) or 0)))
        try:
            value, after = self._connection.invoke(
                self.address, rows, bytes(lent), back=bool(received)
            )
        except LostSessionError:
            if self.restype is None:  # the next call with a result tells
                return None
            raise
        for begin, content in received:
            size = ctypes.sizeof(content)
            ctypes.memmove(ctypes.addressof(content), after[begin : begin + size], size)
        return self._result(value)

    def _result(self, value: int) -> Any:
        if self.restype is None:
            return None
        if self.restype is c_char_p:
            return self._connection.text("text", value).encode() if value else None
        if self.restype in (c_int, c_int32):
            return c_int32(value).value
        return value or None if self.restype is c_void_p else value


class RemoteCode:
    """A library that was loaded there, or all of the process; like :class:`ctypes.CDLL`."""

    def __init__(self, connection: RemoteConnection, path: str = "") -> None:
        self.path = path
        """Path of the library on the device; empty for all of the process."""
        self._connection = connection

    def __getitem__(self, name: str) -> RemoteFunction:
        """A function by name; AttributeError if there is none."""
        address = self._connection.find(self.path, name)
        if not address:
            raise AttributeError(f"{self.path or 'the process'} has no function {name!r}")
        return RemoteFunction(self._connection, address)

    def __getattr__(self, name: str) -> RemoteFunction:
        """A function by name, always the same object."""
        found = self[name]
        setattr(self, name, found)
        return found


class RemoteRuntime(NativeRuntime):
    """The lane executor on a device."""

    def __init__(self, connection: RemoteConnection) -> None:
        super().__init__(RemoteCode(connection, connection.lanes))
        self.connection = connection
        for name in _FREED:  # finalizers call them, at any time
            setattr(self, name, partial(connection.free_later, getattr(self, name).address))

    @cached_property
    def lane(self) -> LibraryLane:
        """Any lane of its pools, for calls of operator libraries."""
        process = RemoteCode(self.connection)
        return LibraryLane(
            take_workspace=process[TvmFunction.TAKE_WORKSPACE.value].address,
            give_workspace=process[TvmFunction.GIVE_WORKSPACE.value].address,
            split_region=self.parallel_launch,
        )
