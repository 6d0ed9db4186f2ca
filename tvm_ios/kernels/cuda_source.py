"""Mended CUDA source: TVM 0.17 writes some that newer CUDA refuses.

Source with float16 defines ``htanh`` for itself, and since CUDA 12.8 ``cuda_fp16.h`` has a function
of that name and type. TVM passes the source through a global function, if there is one.
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
    """CUDA source with another name for TVM's ``htanh``."""
    return CLASH.sub("tvm_htanh", source)


class _Hook:
    """TVM's global hook: the user's, with ours in front of it during builds."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._builds = 0
        self._users: Any = None

    def users(self) -> Any:
        """Hook that the user has registered; None without one."""
        with self._lock:
            return self._users if self._builds else _registered()

    def enter(self) -> None:
        """Begin a build; the first one registers our hook."""
        with self._lock:
            if not self._builds:
                self._users = _registered()
                tvm.register_func(HOOK, self._mend, override=True)
            self._builds += 1

    def leave(self) -> None:
        """End a build; the last one restores the user's hook."""
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
"""Function that returns the user's hook, which runs first; None without one."""


@contextmanager
def mended_cuda_source() -> Iterator[None]:
    """Context that mends TVM's CUDA source, in any thread; the user's own hook runs first."""
    _hook.enter()
    try:
        yield
    finally:
        _hook.leave()
