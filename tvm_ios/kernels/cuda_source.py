"""Mends the CUDA source that TVM 0.17 writes, where a newer CUDA refuses it.

With float16 in it, the source defines ``htanh`` for itself; since CUDA 12.8 ``cuda_fp16.h`` has a
function of that name and type. TVM asks a global function to look over the source, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm._ffi.registry import remove_global_func

__all__ = ["mended_cuda_source", "mended_names"]

HOOK = "tvm_callback_cuda_postproc"
CLASH = re.compile(r"\bhtanh\b")


def mended_names(source: str) -> str:
    """CUDA source with TVM's ``htanh`` under a name of its own."""
    return CLASH.sub("tvm_htanh", source)


@contextmanager
def mended_cuda_source() -> Iterator[None]:
    """Mend what TVM compiles for GPUs; a hook that the user has registered goes first."""
    users = tvm.get_global_func(HOOK, allow_missing=True)

    def mend(source: str, target: Any) -> str:
        return mended_names(source if users is None else str(users(source, target)))

    tvm.register_func(HOOK, mend, override=True)
    try:
        yield
    finally:
        if users is None:
            remove_global_func(HOOK)
        else:
            tvm.register_func(HOOK, users, override=True)
