"""The native side of oneDNN's calls (``native/onednn_calls.c``), bound through ctypes. No TVM."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_int, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.libraries.onednn.library import Onednn
from tvm_ios.runtime.libraries.onednn.primitives import LINE_BYTES, MadePart, MadePrimitive
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.support.c_compiler import NativeSource

__all__ = ["CALLS_SOURCE", "RUN_CALL", "NativeFunctions", "OnednnPreparedCall"]

CALLS_SOURCE = NativeSource(Path(__file__).parent / "native" / "onednn_calls.c")
RUN_CALL = "tvm_ios_onednn_run_2"
"""Name of the C function that makes a call; the number is that of the structures it reads."""
# The keys are SET_ADDRESS and EXECUTE of onednn_calls.c.
_FAILED = {1: "dnnl_memory_set_data_handle", 2: "dnnl_primitive_execute"}


class NativeFunctions(Structure):
    """``OnednnFunctions``: functions of oneDNN and of its OpenMP that native code calls."""

    _fields_ = [(name, c_void_p) for name in ("execute", "place", "get_threads", "set_threads")]

    @classmethod
    def of(cls, library: Onednn) -> NativeFunctions:
        """The functions of a loaded library."""
        openmp = (library.get_threads, library.set_threads)
        return cls(
            library.address("dnnl_primitive_execute"),
            library.address("dnnl_memory_set_data_handle"),
            *(None if each is None else ctypes.cast(each, c_void_p).value for each in openmp),
        )


class _NativeArgument(Structure):
    _fields_ = [("argument", c_int), ("memory", c_void_p)]


class _NativePrimitive(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("primitive", "stream", "arguments")),
        *((name, c_void_p) for name in ("positions", "offsets")),
        ("count", c_int64),
    ]


class _NativePart(Structure):
    _fields_ = [
        ("primitives", c_void_p),
        ("count", c_int64),
        ("once", c_int64),
        ("workspace_bytes", c_uint64),
        ("constants", c_void_p),
        ("made_from", c_void_p),
    ]
    made_from: int | None
    """Address of the constants that something was made of; None until it is made again."""


class _NativeCall(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("functions", "take", "give", "launch")),
        *((name, c_void_p) for name in ("whole", "parts")),
        ("num_parts", c_int64),
        *((name, c_int32) for name in ("status", "failed")),
    ]


class OnednnPreparedCall:
    """A call ready to be made from C, whole and in parts; keeps its native form alive.

    There are no parts where the call is not cut. The lane lends workspace, splits regions, and may
    bring the native code along.
    """

    def __init__(
        self,
        library: Onednn,
        functions: NativeFunctions,
        whole: MadePart,
        parts: Sequence[MadePart],
        lane: LibraryLane,
    ) -> None:
        brings = lane.code is not None and hasattr(lane.code, RUN_CALL)
        self.function = address_of(
            lane.code if lane.code and brings else CALLS_SOURCE.library, RUN_CALL
        )
        self._library = library
        self._kept: list[Any] = [functions]
        self._made_once: list[_NativePart] = []
        self._native = _NativeCall(
            functions=ctypes.addressof(functions),
            take=lane.take_workspace,
            give=lane.give_workspace,
            launch=lane.split_region or None,
            whole=self._parts([whole]),
            parts=self._parts(parts),
            num_parts=len(parts),
        )

    @property
    def resource(self) -> int:
        """Address of the native call."""
        return ctypes.addressof(self._native)

    def constants_changed(self) -> None:
        """Have the next run reorder constants again."""
        for part in self._made_once:
            part.made_from = None

    def failure(self, where: str) -> ExecutionError | None:
        """Error of the call of oneDNN that failed, once; None if no call of oneDNN failed."""
        status, self._native.status = self._native.status, 0
        if not status:
            return None
        return self._library.failed(_FAILED[self._native.failed], status, where)

    def _parts(self, parts: Sequence[MadePart]) -> int:
        address = self._array(
            _NativePart,
            [
                _NativePart(
                    primitives=self._array(
                        _NativePrimitive, [*map(self._primitive, part.primitives)]
                    ),
                    count=len(part.primitives),
                    once=part.once,
                    workspace_bytes=part.workspace_bytes,
                    constants=self._constants(part.constant_bytes),
                )
                for part in parts
            ],
        )
        array = (_NativePart * len(parts)).from_address(address)
        self._made_once += [each for each in array if each.once]
        return address

    def _constants(self, size_bytes: int) -> int | None:
        """Address of memory for constants, untouched so far: only the whole or its parts run."""
        if not size_bytes:
            return None
        memory = np.empty(size_bytes + LINE_BYTES, dtype="uint8")
        self._kept.append(memory)
        address = int(memory.ctypes.data)
        return address + -address % LINE_BYTES

    def _primitive(self, made: MadePrimitive) -> _NativePrimitive:
        arguments = made.arguments
        return _NativePrimitive(
            made.handle,
            made.stream,
            self._array(_NativeArgument, [_NativeArgument(a.number, a.memory) for a in arguments]),
            self._array(c_int64, [each.position for each in arguments]),
            self._array(c_int64, [each.offset for each in arguments]),
            len(arguments),
        )

    def _array(self, kind: Any, values: Sequence[Any]) -> int:
        array = (kind * max(1, len(values)))(*values)
        self._kept.append(array)
        return ctypes.addressof(array)
