"""Compiled kernels of one module in a file, shared by all its schedules without merges."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from tvm_ios.plan.placed_kernels import PlacedKernels
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime

__all__ = ["ModelKernels"]

Kernels = TypeVar("Kernels", bound=PlacedKernels)
"""Build of a dialect."""


class ModelKernels(Generic[Kernels]):
    """Compiled kernels of one module in a file of their own, loaded on first use.

    The file lives as long as this object; executors keep the code they have loaded.
    """

    def __init__(self, staged: Kernels) -> None:
        self.staged = staged
        self._lock = Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="tvm-ios-"))
        # A finalizer runs at the end of the process, too, where __del__ may not.
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @cached_property
    def path(self) -> Path:
        """Path of the exported kernels, without parameters."""
        path = self._folder / "kernels.so"
        with self._lock:  # from Python 3.12 on a cached_property has none
            if not path.exists():
                self.staged.factory.get_lib().export_library(str(path))
        return path

    @cached_property
    def library(self) -> KernelLibrary:
        """Loaded kernels, whose parallel launches go to our lanes."""
        return KernelLibrary(self.path, shared_runtime())

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the kernels by name."""
        return self.staged.params

    @property
    def target(self) -> Any:
        """Target that the kernels are compiled for."""
        return self.staged.target
