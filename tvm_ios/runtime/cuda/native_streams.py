"""The native side of streams (``native/cuda_streams.c``), bound through ctypes.

It issues a stream program in one call, and serves kernels with workspace of their stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

from tvm_ios.plan.stream_order import StreamProgram
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.gpu.driver import CudaDriver
from tvm_ios.support.c_compiler import NativeSource

__all__ = [
    "BEGIN_CAPTURE",
    "END_CAPTURE",
    "NO_STEP",
    "STREAMS_SOURCE",
    "WORKSPACE_CALLS",
    "NativeStreams",
    "Outcome",
    "StreamBinding",
    "Workspaces",
]

NO_STEP, BEGIN_CAPTURE, END_CAPTURE = -1, -2, -3
"""Values of :attr:`Outcome.step` in place of a step: no failure, failed begin or end of a
capture."""

# The order is that of ALLOCATE, SYNCHRONIZE and FREE in cuda_streams.c.
WORKSPACE_CALLS = ("cuMemAlloc_v2", "cuStreamSynchronize", "cuMemFree_v2")
"""Functions of the driver that are called when a workspace grows."""
_NATIVE = Path(__file__).parent / "native"
STREAMS_SOURCE = NativeSource(_NATIVE / "cuda_streams.c")
_ABI = 2
"""Version of the structures below; code of older models has another one, and is not used."""
# This is MAX_BLOCKS of cuda_streams.c, which decides the size of the structures.
_MAX_BLOCKS = 64


class _Step(Structure):
    _fields_ = [(name, c_int32) for name in ("kind", "stream", "index", "unused")]


class _Block(Structure):
    _fields_ = [("address", c_uint64), ("size_bytes", c_uint64), ("busy", c_int64)]


class _Workspace(Structure):
    _fields_ = [
        ("stream", c_void_p),
        ("wanted_bytes", c_uint64),
        ("status", c_int32),
        ("failed_call", c_int32),
        ("fixed", c_int64),
        ("blocks", _Block * _MAX_BLOCKS),
    ]


class _Functions(Structure):
    _fields_ = [
        (name, c_void_p)
        for name in (
            "set_stream",
            "take_workspace",
            "give_workspace",
            "record",
            "wait",
            "synchronize",
            "allocate",
            "free",
            "begin_capture",
            "end_capture",
        )
    ]


class _Program(Structure):
    _fields_ = [
        ("steps", c_void_p),
        ("launches", c_void_p),
        ("streams", c_void_p),
        ("events", c_void_p),
        ("workspaces", c_void_p),
        ("num_steps", c_int32),
        ("device_id", c_int32),
    ]


class Outcome(Structure):
    """Outcome of issuing a program: success, or the step that failed and why."""

    _fields_ = [
        ("step", c_int32),
        ("status", c_int32),
        ("end_status", c_int32),
        ("workspace_status", c_int32),
        ("workspace_call", c_int32),
        ("unused", c_int32),
        ("workspace_bytes", c_uint64),
    ]
    step: int
    """Position of the step that failed, or one of the negative constants of this file."""
    status: int
    end_status: int
    """The status that the end of the capture returned."""
    workspace_status: int
    """Status of the driver call that gave no workspace, of which ``workspace_bytes`` were wanted;
    0: none failed."""
    workspace_call: int
    """Position in :data:`WORKSPACE_CALLS` of the call that failed then."""
    workspace_bytes: int


class Workspaces:
    """Workspace that kernels have taken so far, by stream; it grows in their first run.

    The first stream stands for the caller's, which runs no kernel.
    """

    def __init__(self, native: NativeStreams, streams: Sequence[int]) -> None:
        self._native = native
        self.array = (_Workspace * len(streams))()
        for workspace, stream in zip(self.array, streams, strict=True):
            workspace.stream = stream

    @property
    def size_bytes(self) -> int:
        """Bytes of the workspaces of all streams together."""
        return sum(block.size_bytes for workspace in self.array for block in workspace.blocks)

    def free(self) -> None:
        """Give back the workspaces of all streams; CudaCallError if the driver refuses one."""
        codes = [self._native.free_workspace(ctypes.byref(each)) for each in self.array]
        for code in filter(None, codes):
            raise self._native.driver.failed("cuMemFree_v2", code, "workspace of kernels")


class StreamBinding:
    """A stream program with its handles, ready to be issued; keeps all of them alive.

    ``launches`` is the address of the first of the plan's native launches, which follow one
    another. Each run sets the first stream anew.
    """

    def __init__(
        self,
        program: StreamProgram,
        launches: int,
        streams: Sequence[int],
        events: Sequence[int],
        workspaces: Workspaces,
        *,
        device: int,
    ) -> None:
        self.program = program
        steps = (_Step * (len(program.steps) or 1))()
        for native, step in zip(steps, program.steps, strict=False):
            native.kind, native.stream, native.index = step.kind, step.stream, step.index
        arrays = (
            (c_void_p * len(streams))(*streams),
            (c_void_p * (len(events) or 1))(*events),
        )
        self._kept = (steps, arrays, workspaces)
        self.native = _Program(
            steps=ctypes.addressof(steps),
            launches=launches,
            streams=ctypes.addressof(arrays[0]),
            events=ctypes.addressof(arrays[1]),
            workspaces=ctypes.addressof(workspaces.array),
            num_steps=len(program.steps),
            device_id=device,
        )


class NativeStreams:
    """Native functions of streams, bound to a driver and to TVM.

    An exported file brings the functions along; for other kernels they are compiled here.
    """

    def __init__(self, driver: CudaDriver, kernels: KernelLibrary) -> None:
        self.driver = driver
        self._kernels = kernels
        self._library = kernels.code if _brings_streams(kernels.code) else STREAMS_SOURCE.library
        functions = _Functions(
            set_stream=kernels.convention.set_stream(),
            take_workspace=TvmFunction.TAKE_WORKSPACE.address,
            give_workspace=TvmFunction.GIVE_WORKSPACE.address,
            record=driver.address("cuEventRecord"),
            wait=driver.address("cuStreamWaitEvent"),
            synchronize=driver.address("cuStreamSynchronize"),
            allocate=driver.address("cuMemAlloc_v2"),
            free=driver.address("cuMemFree_v2"),
            begin_capture=driver.address("cuStreamBeginCapture_v2"),
            end_capture=driver.address("cuStreamEndCapture"),
        )
        self._library.tvm_ios_cuda_bind(ctypes.byref(functions))
        self.free_workspace = self._library["tvm_ios_cuda_free_workspace"]
        self._issue = self._library["tvm_ios_cuda_issue"]
        self._issue.argtypes, self._issue.restype = [c_void_p] * 3, None
        self._capture = self._library["tvm_ios_cuda_capture"]
        self._capture.argtypes, self._capture.restype = [c_void_p] * 4, c_void_p
        self.take_workspace = address_of(self._library, "tvm_ios_cuda_take_workspace")
        self.give_workspace = address_of(self._library, "tvm_ios_cuda_give_workspace")

    def hook(self) -> None:
        """Serve the kernels with workspace of the stream they run on.

        Threads that issue no stream program get TVM's own. To be called before each run: stock TVM
        undoes it when it loads the file again.
        """
        self._kernels.redirect(TvmFunction.TAKE_WORKSPACE, self.take_workspace)
        self._kernels.redirect(TvmFunction.GIVE_WORKSPACE, self.give_workspace)

    def issue(self, binding: StreamBinding, caller: int) -> Outcome:
        """Issue a program that forks from the caller, TVM's stream of this thread, and joins it."""
        outcome = Outcome()
        self._issue(ctypes.byref(binding.native), caller or None, ctypes.byref(outcome))
        return outcome

    def capture(self, binding: StreamBinding, origin: int, caller: int) -> tuple[int, Outcome]:
        """Graph of a captured program that forks from and joins the origin; 0 if there is none.

        The origin is any stream but the default one. TVM's stream of this thread is the caller
        again afterwards.
        """
        outcome = Outcome()
        graph = self._capture(
            ctypes.byref(binding.native), origin, caller or None, ctypes.byref(outcome)
        )
        return graph or 0, outcome


def _brings_streams(code: ctypes.CDLL) -> bool:
    """True if the code of a model has the native side of streams, with today's structures."""
    return hasattr(code, "tvm_ios_cuda_abi") and code.tvm_ios_cuda_abi() == _ABI
