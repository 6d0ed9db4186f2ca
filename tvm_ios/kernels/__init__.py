"""Kernels one by one: lowered code in, objects from a cache or a compiler, linked into a library.

Comes between a dialect, which says what each kernel computes, and the library for an executor.
"""

from __future__ import annotations

from tvm_ios.kernels.archive import import_kernels
from tvm_ios.kernels.cache import KernelCache
from tvm_ios.kernels.compile import KernelCompiler, KernelCounts
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.kernels.workers import shared_workers, start_shared_workers

__all__ = [
    "KernelCache",
    "KernelCompiler",
    "KernelCounts",
    "LoweredKernel",
    "import_kernels",
    "shared_workers",
    "start_shared_workers",
]
