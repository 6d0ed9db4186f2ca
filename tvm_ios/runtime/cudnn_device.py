"""cuDNN on one GPU: handles for streams, prepared calls, and the algorithms they use."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import Structure, c_int32, c_size_t, c_uint64, c_void_p
from dataclasses import replace
from typing import Protocol

from tvm_ios.errors import DatabaseError
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.runtime.cuda_device import CudaDevice, CudaHandles
from tvm_ios.runtime.cuda_native import CUDNN_CALLS
from tvm_ios.runtime.cudnn_convolution import CudnnAlgorithm, CudnnCall, CudnnConvolution
from tvm_ios.runtime.cudnn_descriptors import Descriptors, describe
from tvm_ios.runtime.cudnn_library import Cudnn, load_cudnn
from tvm_ios.runtime.cudnn_search import activates, find_algorithm

__all__ = ["CudnnDevice", "FactStore"]

NONE_RUNS = "none"
"""Kept in place of an algorithm where no algorithm computes the convolution."""


class FactStore(Protocol):
    """Keeps what is found once, such as the profile database."""

    def get_facts(self, subject: str, names: Iterable[str]) -> Mapping[str, str]:
        """What is known of a subject, by name."""
        ...

    def put_facts(self, subject: str, facts: Mapping[str, str]) -> None:
        """Keep what was found of a subject."""
        ...


class _Functions(Structure):
    _fields_ = [(name, c_void_p) for name in CUDNN_CALLS]


class _Call(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("functions", "x", "w", "y", "bias")),
        *((name, c_void_p) for name in ("convolution", "activation", "no_bias")),
        ("workspace_bytes", c_uint64),
        *((name, c_int32) for name in ("algorithm", "activates", "data", "weight")),
        *((name, c_int32) for name in ("bias_argument", "unused")),
    ]


class CudnnDevice:
    """Lends handles, prepares calls and finds algorithms; to be closed before its GPU.

    Parameters
    ----------
    device
        The GPU.
    library
        cuDNN; that of this process where omitted.
    store
        Where algorithms are kept. Without one, and with one that cannot be used, they are found
        anew for each object of this class.

    Raises
    ------
    HostError
        If there is no cuDNN.
    """

    def __init__(
        self,
        device: CudaDevice,
        *,
        library: Cudnn | None = None,
        store: FactStore | None = None,
    ) -> None:
        self.library = library or load_cudnn()
        self._device = device
        self._store = store
        self._handles = CudaHandles(device)
        self._idle: list[int] = []
        self._described: dict[CudnnConvolution, Descriptors] = {}
        self._algorithms: dict[CudnnConvolution, CudnnAlgorithm | None] = {}
        self._prepared: dict[CudnnCall, _Call] = {}
        self._zeros: dict[int, int] = {}
        self._functions = _Functions(*map(self.library.address, CUDNN_CALLS))

    @property
    def device_name(self) -> str:
        """What its algorithms are kept under, with the version of cuDNN."""
        facts = self._device.facts
        return f"{facts.name} ({facts.arch})"

    def lend(self, stream: int) -> int:
        """A handle that works on this stream, until it is given back.

        Raises
        ------
        CudaCallError
            If cuDNN refuses.
        """
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
        """The fastest algorithm of each; None where cuDNN does not compute it.

        Looked for in memory, in the store, and on the GPU.

        Raises
        ------
        CudaCallError
            If a search fails.
        """
        wanted = dict.fromkeys(convolutions)
        unknown = {each.as_text(): each for each in wanted if each not in self._algorithms}
        kept = self._recall(unknown) if unknown else {}
        found: dict[str, str] = {}
        for text, convolution in unknown.items():
            value = kept.get(text)
            if value is None:
                value, measured = self._search(convolution)
                if measured:
                    found[text] = value
            self._algorithms[convolution] = self._read(value)
        if found and self._store is not None:
            with suppress(DatabaseError):
                self._store.put_facts(self._subject, found)
        return {convolution: self._algorithms[convolution] for convolution in wanted}

    def complete(self, plan: ExecutionPlan) -> ExecutionPlan:
        """The plan with algorithms of this GPU; kernels compute what has none here.

        Parameters
        ----------
        plan
            Algorithms of this GPU and this cuDNN that it brings along are kept.

        Raises
        ------
        CudaCallError
            If a search fails.
        """
        unknown = [
            launch.cudnn.convolution
            for launch in plan.launches
            if launch.cudnn is not None and not self._fits(launch.cudnn.algorithm)
        ]
        if not unknown:
            return plan
        found = self.algorithms(unknown)
        return replace(
            plan, launches=tuple(self._completed(launch, found) for launch in plan.launches)
        )

    def prepare(self, call: CudnnCall, operator: str) -> int:
        """Address of the native form of a call; valid until this is closed.

        Parameters
        ----------
        call
            What to prepare, of a plan that is complete.
        operator
            Its name, for messages.

        Raises
        ------
        CudaCallError
            If cuDNN refuses it.
        """
        if call not in self._prepared:
            self._prepared[call] = self._made(call, operator)
        return ctypes.addressof(self._prepared[call])

    def close(self) -> None:
        """Destroy handles and descriptors; twice is fine.

        Raises
        ------
        CudaCallError
            If cuDNN refuses, once everything else is destroyed.
        """
        self._idle.clear()
        self._prepared.clear()
        self._described.clear()
        self._zeros.clear()
        self._handles.close()

    def _made(self, call: CudnnCall, operator: str) -> _Call:
        convolution, algorithm = call.convolution, call.algorithm
        assert algorithm is not None, "complete() gives every call one"
        described = self._describe(convolution)
        return _Call(
            functions=ctypes.addressof(self._functions),
            x=described.x,
            w=described.w,
            y=described.y,
            bias=described.bias,
            convolution=described.convolution,
            activation=described.activation,
            no_bias=self._no_bias(convolution) if call.bias is None else None,
            workspace_bytes=self._workspace_bytes(described, algorithm.number, operator),
            algorithm=algorithm.number,
            activates=activates(convolution, algorithm.number),
            data=call.data,
            weight=call.weight,
            bias_argument=-1 if call.bias is None else call.bias,
        )

    def _fits(self, algorithm: CudnnAlgorithm | None) -> bool:
        here = (self.device_name, self.library.version)
        return algorithm is not None and (algorithm.device, algorithm.version) == here

    def _completed(
        self, launch: Launch, found: Mapping[CudnnConvolution, CudnnAlgorithm | None]
    ) -> Launch:
        call = launch.cudnn
        if call is None or self._fits(call.algorithm):
            return launch
        algorithm = found[call.convolution]
        return replace(
            launch, cudnn=None if algorithm is None else replace(call, algorithm=algorithm)
        )

    def _describe(self, convolution: CudnnConvolution) -> Descriptors:
        if convolution not in self._described:
            later = self._handles.later
            self._described[convolution] = describe(self.library, convolution, later)
        return self._described[convolution]

    def _workspace_bytes(self, described: Descriptors, algorithm: int, operator: str) -> int:
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
        """Zeros to add, since a call that activates adds a bias; None where it does not."""
        if not convolution.relu:
            return None
        channels = convolution.weight_shape[0]
        size_bytes = (channels * dtype_bytes(convolution.dtype) + 3) // 4 * 4
        if size_bytes not in self._zeros:
            driver, address = self._device.driver, c_uint64()
            self._device.activate()
            driver.call("cuMemAlloc_v2", ctypes.byref(address), size_bytes, where="a bias of zeros")
            self._handles.later(driver.call, "cuMemFree_v2", address.value)
            driver.call("cuMemsetD32_v2", address.value, 0, size_bytes // 4)
            driver.call("cuCtxSynchronize")
            self._zeros[size_bytes] = address.value
        return self._zeros[size_bytes]

    def _search(self, convolution: CudnnConvolution) -> tuple[str, bool]:
        """The algorithm as it is kept, and whether it was measured."""
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

    def _recall(self, texts: Iterable[str]) -> Mapping[str, str]:
        if self._store is not None:
            with suppress(DatabaseError):
                return self._store.get_facts(self._subject, texts)
        return {}

    @property
    def _subject(self) -> str:
        return f"algorithms of cuDNN {self.library.version_text} on {self.device_name}"

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
        handle = self.library.handle("cudnnCreate", "a stream of a model")
        self._handles.later(self.library.call, "cudnnDestroy", handle)
        return handle
