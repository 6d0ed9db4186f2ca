"""The functions of oneDNN 3 that operators need, through ctypes. No TVM here.

Prototypes and numbers are those of the C interface that all releases 3.x share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from functools import cache
from types import MappingProxyType
from typing import Any

from tvm_ios.core.onednn_files import (
    ONEDNN_VARIABLE,
    OnednnVersion,
    find_onednn,
)
from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.runtime.base.status_library import StatusLibrary
from tvm_ios.runtime.libraries.onednn.numbers import QUERY_NAME
from tvm_ios.support.extras import install_command

__all__ = ["Onednn", "OnednnRefusalError", "extents_of", "load_onednn"]

MOST_AXES = 12
"""Number of axes that arrays of extents have room for (``DNNL_MAX_NDIMS``)."""
_MAKE, _DROP = POINTER(c_void_p), (c_void_p,)
_EXTENTS = POINTER(c_int64)
_CONVOLVE = (_MAKE, c_void_p, c_int, c_int, *(c_void_p,) * 4, *(_EXTENTS,) * 4, c_void_p)
_POOL = (_MAKE, c_void_p, c_int, c_int, *(c_void_p,) * 2, *(_EXTENTS,) * 5, c_void_p)
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "dnnl_engine_create": (_MAKE, c_int, c_size_t),
        "dnnl_engine_destroy": _DROP,
        "dnnl_stream_create": (_MAKE, c_void_p, c_uint),
        "dnnl_stream_destroy": _DROP,
        "dnnl_memory_desc_create_with_tag": (_MAKE, c_int, _EXTENTS, c_int, c_int),
        "dnnl_memory_desc_create_with_strides": (_MAKE, c_int, _EXTENTS, c_int, _EXTENTS),
        "dnnl_memory_desc_destroy": _DROP,
        "dnnl_memory_create": (_MAKE, c_void_p, c_void_p, c_void_p),
        "dnnl_memory_set_data_handle": (c_void_p, c_void_p),
        "dnnl_memory_destroy": _DROP,
        "dnnl_primitive_attr_create": (_MAKE,),
        "dnnl_primitive_attr_set_scratchpad_mode": (c_void_p, c_int),
        "dnnl_primitive_attr_set_fpmath_mode": (c_void_p, c_int),
        "dnnl_primitive_attr_set_post_ops": (c_void_p, c_void_p),
        "dnnl_primitive_attr_destroy": _DROP,
        "dnnl_post_ops_create": (_MAKE,),
        "dnnl_post_ops_append_eltwise": (c_void_p, c_int, c_float, c_float),
        "dnnl_post_ops_append_binary": (c_void_p, c_int, c_void_p),
        "dnnl_post_ops_append_prelu": (c_void_p, c_int),
        "dnnl_post_ops_destroy": _DROP,
        "dnnl_convolution_forward_primitive_desc_create": _CONVOLVE,
        "dnnl_deconvolution_forward_primitive_desc_create": _CONVOLVE,
        "dnnl_pooling_forward_primitive_desc_create": _POOL,
        "dnnl_binary_primitive_desc_create": (_MAKE, c_void_p, c_int, *(c_void_p,) * 4),
        "dnnl_eltwise_forward_primitive_desc_create": (
            *(_MAKE, c_void_p, c_int, c_int, c_void_p, c_void_p, c_float, c_float, c_void_p),
        ),
        "dnnl_softmax_forward_primitive_desc_create": (
            *(_MAKE, c_void_p, c_int, c_int, c_void_p, c_void_p, c_int, c_void_p),
        ),
        "dnnl_matmul_primitive_desc_create": (_MAKE, *(c_void_p,) * 6),
        "dnnl_reorder_primitive_desc_create": (_MAKE, *(c_void_p,) * 5),
        "dnnl_primitive_desc_query": (c_void_p, c_int, c_int, c_void_p),
        "dnnl_primitive_desc_destroy": _DROP,
        "dnnl_primitive_create": (_MAKE, c_void_p),
        "dnnl_primitive_execute": (c_void_p, c_void_p, c_int, c_void_p),
        "dnnl_primitive_destroy": _DROP,
    }
)
_INVALID, _UNIMPLEMENTED = 2, 3
_CHOICE = 9
"""Version of the rules that choose among oneDNN's codes for a call; counted up with each change,
since older measurements are of other code."""


class OnednnRefusalError(ExecutionError):
    """A request that oneDNN has no implementation for."""


class Onednn(StatusLibrary):
    """Functions of a loaded libdnnl; each raises where it fails. The path is for messages."""

    def __init__(self, library: ctypes.CDLL, path: str, version: OnednnVersion) -> None:
        self.path = path
        self.version = version
        super().__init__(library, _FUNCTIONS)
        self._size = library["dnnl_memory_desc_get_size"]
        self._size.restype, self._size.argtypes = c_size_t, [c_void_p]
        self._equal = library["dnnl_memory_desc_equal"]
        self._equal.restype, self._equal.argtypes = c_int, [c_void_p, c_void_p]
        self._query_md = library["dnnl_primitive_desc_query_md"]
        self._query_md.restype, self._query_md.argtypes = c_void_p, [c_void_p, c_int, c_int]
        self._status_text = library["dnnl_status2str"]
        self._status_text.restype = c_char_p
        self.get_threads, self.set_threads = self._thread_functions()

    @property
    def isa(self) -> str:
        """Instruction sets in use, by oneDNN's name, such as ``avx512_core``."""
        text = self.library["dnnl_cpu_isa2str"]
        text.restype = c_char_p
        name: bytes = text(self.library["dnnl_get_effective_cpu_isa"]()) or b"unknown"
        return name.decode(errors="replace").removeprefix("cpu_isa_")

    @property
    def identity(self) -> str:
        """Version, instruction sets and rules of choice, which decide the time of a call."""
        return f"{self.version.text}-{self.isa}-{_CHOICE}"

    def prototype(self, name: str) -> tuple[Any, ...]:
        """Types (of ctypes) of a function's arguments."""
        return _FUNCTIONS[name]

    def size_bytes(self, descriptor: int) -> int:
        """Bytes of the memory that a memory descriptor describes."""
        return int(self._size(descriptor))

    def equal(self, one: int, other: int) -> bool:
        """True if two memory descriptors describe the same layout."""
        return bool(self._equal(one, other))

    def descriptor_of(self, primitive: int, query: int, index: int = 0) -> int:
        """Memory descriptor owned by a primitive's descriptor; 0 where that has none."""
        return self._query_md(primitive, query, index) or 0

    def name_of(self, primitive: int) -> str:
        """Name that oneDNN gives the code of a primitive's descriptor."""
        name = c_char_p()
        self.call("dnnl_primitive_desc_query", primitive, QUERY_NAME, 0, ctypes.byref(name))
        return (name.value or b"").decode(errors="replace")

    def failed(self, call: str, code: int, where: str = "") -> ExecutionError:
        """The error of a call that returned `code`."""
        name = (self._status_text(code) or b"").decode(errors="replace") or f"status {code}"
        place = f"{where}: " if where else ""
        # Some of its code says so of arguments that are right, and that it has no way to compute.
        described = call.endswith("primitive_desc_create")
        refused = code == _UNIMPLEMENTED or (described and code == _INVALID)
        kind = OnednnRefusalError if refused else ExecutionError
        return kind(
            f"{place}{call} failed: {name} (oneDNN {self.version.text}); compile without "
            "onednn=True, or give another libdnnl"
        )

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Context in which this thread makes primitives that run in one thread."""
        if self.set_threads is None or self.get_threads is None:
            yield
            return
        before = self.get_threads()
        self.set_threads(1)
        try:
            yield
        finally:
            self.set_threads(before)

    def _thread_functions(self) -> tuple[Any, Any]:
        """Thread functions of the OpenMP that oneDNN links to; None for a sequential build."""
        if self.version.runtime == "sequential":
            return None, None
        try:
            # Looked up in the library and what it depends on: a process may have several OpenMPs.
            get, set_ = self.library["omp_get_max_threads"], self.library["omp_set_num_threads"]
        except AttributeError:
            raise HostError(self._unfit("its OpenMP cannot be held to one thread")) from None
        get.restype, set_.restype, set_.argtypes = c_int, None, [c_int]
        return get, set_

    def _lacking(self, name: str) -> str:
        return self._unfit(f"it has no {name}")

    def _unfit(self, reason: str) -> str:
        return (
            f"{self.path} is {self.version.as_text()}, but {reason}; "
            f"{install_command('onednn')}, or name another libdnnl in {ONEDNN_VARIABLE}"
        )


def extents_of(values: Sequence[int]) -> ctypes.Array[c_int64]:
    """Array of ctypes with one whole number an axis."""
    return (c_int64 * MOST_AXES)(*values)


@cache
def load_onednn() -> Onednn:
    """The oneDNN of this process."""
    found = find_onednn()
    if found.library is None or found.version is None:
        raise HostError(
            f"no oneDNN 3: {found.reason}; run {install_command('onednn')}, name a libdnnl in "
            f"{ONEDNN_VARIABLE}, or leave out onednn=True"
        )
    return Onednn(found.library, found.path, found.version)
