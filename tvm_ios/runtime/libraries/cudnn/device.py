"""cuDNN on one GPU: handles for streams, prepared calls, and the algorithms they use."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import c_size_t, c_uint64
from dataclasses import replace

from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.runtime.gpu.device import CudaDevice, CudaHandles
from tvm_ios.runtime.libraries.cudnn.convolution import (
    CudnnAlgorithm,
    CudnnCall,
    CudnnConvolution,
)
from tvm_ios.runtime.libraries.cudnn.descriptors import Descriptors, describe
from tvm_ios.runtime.libraries.cudnn.library import load_cudnn
from tvm_ios.runtime.libraries.cudnn.native_calls import (
    CALLS_SOURCE,
    CUDNN_CALLS,
    CudnnPreparedCall,
    NativeCall,
    NativeFunctions,
    convolve_address,
)
from tvm_ios.runtime.libraries.cudnn.search import activates, find_algorithm
from tvm_ios.runtime.libraries.facts import find_facts
from tvm_ios.runtime.libraries.protocol import FactStore, LibraryLane

__all__ = ["CudnnDevice", "CudnnStream"]

NONE_RUNS = "none"
"""Stored in place of an algorithm where no algorithm computes the convolution."""


class CudnnDevice:
    """cuDNN on a GPU: lends handles, prepares calls, finds algorithms; to be closed before its GPU.

    An :class:`~tvm_ios.runtime.libraries.protocol.OpenLibrary`, whose docstrings hold here, too.
    Without a store, and with one that cannot be used, algorithms are found anew for each object of
    this class.
    """

    def __init__(self, device: CudaDevice, *, store: FactStore | None) -> None:
        self.library = load_cudnn()
        self._device = device
        self._store = store
        self._handles = CudaHandles(device)
        self._idle: list[int] = []
        self._described: dict[CudnnConvolution, Descriptors] = {}
        self._algorithms: dict[CudnnConvolution, CudnnAlgorithm | None] = {}
        self._workspace_bytes: dict[CudnnCall, int] = {}
        self._zeros: dict[int, int] = {}
        self._functions = NativeFunctions(*map(self.library.address, CUDNN_CALLS))

    @property
    def device_name(self) -> str:
        """Name of the GPU that its algorithms are stored under."""
        facts = self._device.facts
        return f"{facts.name} ({facts.arch})"

    def lend(self, stream: int) -> int:
        """Handle that works on a stream, until it is given back."""
        handle = self._idle.pop() if self._idle else self._make_handle()
        self.library.call("cudnnSetStream", handle, stream or None, where="a stream of a model")
        return handle

    def give_back(self, handle: int) -> None:
        """Take a handle back; its stream may go then."""
        self.library.call("cudnnSetStream", handle, None, where="a stream of a model")
        self._idle.append(handle)

    def algorithms(
        self, convolutions: Iterable[CudnnConvolution]
    ) -> dict[CudnnConvolution, CudnnAlgorithm | None]:
        """Fastest algorithm of each convolution; None where cuDNN does not compute it.

        Looked for in memory, in the store, and then on the GPU.
        """
        wanted = dict.fromkeys(convolutions)
        unknown = {each.as_text(): each for each in wanted if each not in self._algorithms}
        subject = f"algorithms of {self.as_text()} on {self.device_name}"
        for text, value in find_facts(self._store, subject, unknown, self._search).items():
            self._algorithms[unknown[text]] = self._read(value)
        return {convolution: self._algorithms[convolution] for convolution in wanted}

    def complete(self, calls: Iterable[CudnnCall]) -> dict[CudnnCall, CudnnCall | None]:
        """Calls with an algorithm of this GPU and cuDNN; the value is None without algorithm."""
        wanted = list(calls)
        found = self.algorithms(
            call.convolution for call in wanted if not self._fits(call.algorithm)
        )
        return {
            call: call
            if self._fits(call.algorithm)
            else self._with_algorithm(call, found[call.convolution])
            for call in wanted
        }

    def price_name(self, call: CudnnCall) -> str:
        """Version, algorithm and arithmetic of a complete call, and digest of the calling code."""
        assert call.algorithm is not None, "complete() gives every call one"
        tf32 = "-tf32" if call.convolution.tf32 else ""
        version = self.library.version_text
        return f"{version}-algorithm{call.algorithm.number}{tf32}-{CALLS_SOURCE.digest}"

    def found_ns(self, call: CudnnCall) -> None:
        """Return None: times of algorithms are not kept."""

    def on_lane(self, lane: LibraryLane) -> CudnnStream:
        """A handle on a stream, and the calls of cuDNN that use it."""
        return CudnnStream(self, lane)

    def as_text(self) -> str:
        """Name and version of cuDNN."""
        return f"cuDNN {self.library.version_text}"

    def prepare(self, call: CudnnCall, operator: str, handle: int, lane: LibraryLane) -> NativeCall:
        """The native form of a complete call on a stream, whose handle was lent for it."""
        convolution, algorithm = call.convolution, call.algorithm
        assert algorithm is not None, "complete() gives every call one"
        described = self._describe(convolution)
        if call not in self._workspace_bytes:
            size_bytes = self._find_workspace_bytes(described, algorithm.number, operator)
            self._workspace_bytes[call] = size_bytes
        return NativeCall(
            functions=ctypes.addressof(self._functions),
            handle=handle,
            take=lane.take_workspace,
            give=lane.give_workspace,
            x=described.x,
            w=described.w,
            y=described.y,
            bias=described.bias,
            convolution=described.convolution,
            activation=described.activation,
            no_bias=self._no_bias(convolution) if call.bias is None else None,
            workspace_bytes=self._workspace_bytes[call],
            algorithm=algorithm.number,
            activates=activates(convolution, algorithm.number),
            data=call.data,
            weight=call.weight,
            bias_argument=-1 if call.bias is None else call.bias,
        )

    def close(self) -> None:
        """Destroy handles and descriptors; twice is fine."""
        self._idle.clear()
        self._workspace_bytes.clear()
        self._described.clear()
        self._zeros.clear()
        self._handles.close()

    def _fits(self, algorithm: CudnnAlgorithm | None) -> bool:
        here = (self.device_name, self.library.version)
        return algorithm is not None and (algorithm.device, algorithm.version) == here

    def _with_algorithm(
        self, call: CudnnCall, algorithm: CudnnAlgorithm | None
    ) -> CudnnCall | None:
        return None if algorithm is None else replace(call, algorithm=algorithm)

    def _describe(self, convolution: CudnnConvolution) -> Descriptors:
        if convolution not in self._described:
            later = self._handles.later
            self._described[convolution] = describe(self.library, convolution, later)
        return self._described[convolution]

    def _find_workspace_bytes(self, described: Descriptors, algorithm: int, operator: str) -> int:
        size = c_size_t()
        with self._own_handle() as handle:
            self.library.call(
                "cudnnGetConvolutionForwardWorkspaceSize",
                handle,
                described.x,
                described.w,
                described.convolution,
                described.y,
                algorithm,
                ctypes.byref(size),
                where=f"operator {operator!r}",
            )
        return size.value

    def _no_bias(self, convolution: CudnnConvolution) -> int | None:
        """Address of zeros for calls with ReLU, which always add a bias; None for other calls."""
        if not convolution.relu:
            return None
        channels = convolution.weight_shape[0]
        # Whole words: cuMemsetD32 fills nothing less, and a float16 is half of one.
        size_bytes = (channels * dtype_bytes(convolution.dtype) + 3) // 4 * 4
        if size_bytes not in self._zeros:
            driver, address = self._device.driver, c_uint64()
            self._device.activate()
            driver.call("cuMemAlloc_v2", ctypes.byref(address), size_bytes, where="a bias of zeros")
            self._handles.later(driver.call, "cuMemFree_v2", address.value)
            driver.call("cuMemsetD32_v2", address.value, 0, size_bytes // 4)
            # The fill is on the default stream, for which streams of ours do not wait.
            self._device.synchronize()
            self._zeros[size_bytes] = address.value
        return self._zeros[size_bytes]

    def _search(self, convolution: CudnnConvolution) -> tuple[str, bool]:
        """Algorithm as text for the store, and True if it was measured."""
        self._device.activate()
        described = self._describe(convolution)
        with self._own_handle() as handle:
            number, measured = find_algorithm(
                self.library, self._device, handle, convolution, described
            )
        return NONE_RUNS if number is None else str(number), measured

    def _read(self, value: str) -> CudnnAlgorithm | None:
        if value == NONE_RUNS:
            return None
        return CudnnAlgorithm(
            number=int(value), device=self.device_name, version=self.library.version
        )

    @contextmanager
    def _own_handle(self) -> Iterator[int]:
        """A handle on the default stream."""
        handle = self._idle.pop() if self._idle else self._make_handle()
        try:
            yield handle
        finally:
            self._idle.append(handle)

    def _make_handle(self) -> int:
        self._device.activate()
        handle = self.library.make("cudnnCreate", where="a stream of a model")
        self._handles.later(self.library.call, "cudnnDestroy", handle)
        return handle


class CudnnStream:
    """cuDNN on one stream, with a handle of its own."""

    def __init__(self, device: CudnnDevice, lane: LibraryLane) -> None:
        self._device = device
        self._lane = lane
        self._convolve = convolve_address(lane.code)
        self._handle = device.lend(lane.stream)
        self._open = True

    def prepare(self, call: CudnnCall, operator: str) -> CudnnPreparedCall:
        """A call on the stream, ready to be made; CudaCallError if cuDNN refuses it."""
        native = self._device.prepare(call, operator, self._handle, self._lane)
        return CudnnPreparedCall(native, self._convolve, self._device.library)

    def close(self) -> None:
        """Give the handle back; twice is fine."""
        if self._open:
            self._open = False
            self._device.give_back(self._handle)
