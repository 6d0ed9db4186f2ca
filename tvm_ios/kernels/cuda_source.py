"""Mends the CUDA source that TVM 0.17 writes, where a newer CUDA refuses it.

With float16 in it, the source defines ``htanh`` for itself; since CUDA 12.8 ``cuda_fp16.h`` has a
function of that name and type. TVM asks a global function to look over the source, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import tvm
from tvm._ffi.registry import remove_global_func

__all__ = ["mended_cuda_source", "mended_names", "users_hook"]

HOOK = "tvm_callback_cuda_postproc"
CLASH = re.compile(r"\bhtanh\b")


def mended_names(source: str) -> str:
    """CUDA source with TVM's ``htanh`` under a name of its own."""
    return CLASH.sub("tvm_htanh", source)


class _Hook:
    """TVM's global hook: the user's, or ours in front of it while anything is built."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._builds = 0
        self._users: Any = None

    def users(self) -> Any:
        """What the user has registered; None if nothing."""
        with self._lock:
            return self._users if self._builds else _registered()

    def enter(self) -> None:
        """A build begins; the first one registers our hook."""
        with self._lock:
            if not self._builds:
                self._users = _registered()
                tvm.register_func(HOOK, self._mend, override=True)
            self._builds += 1

    def leave(self) -> None:
        """A build ends; the last one brings the user's hook back."""
        with self._lock:
            self._builds -= 1
            if not self._builds and self._users is None:
                remove_global_func(HOOK)
            elif not self._builds:
                tvm.register_func(HOOK, self._users, override=True)

    def _mend(self, source: str, target: Any) -> str:
        return mended_names(source if self._users is None else str(self._users(source, target)))


def _registered() -> Any:
    return tvm.get_global_func(HOOK, allow_missing=True)


_hook = _Hook()
users_hook = _hook.users
"""The hook that the user has registered, which goes first; None if there is none."""


@contextmanager
def mended_cuda_source() -> Iterator[None]:
    """Mend what TVM compiles for GPUs, in any thread; the user's own hook goes first."""
    _hook.enter()
    try:
        yield
    finally:
        _hook.leave()
