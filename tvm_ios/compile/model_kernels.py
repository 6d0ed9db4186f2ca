"""Compiled kernels in a file of their own, and those of one module with what is known of them."""

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

__all__ = ["LinkedKernels", "ModelKernels"]

Kernels = TypeVar("Kernels", bound=PlacedKernels)
"""Build of a dialect."""


class LinkedKernels:
    """Compiled kernels in a file of their own, loaded on first use.

    The file lives as long as this object; executors keep the code they have loaded.
    """

    def __init__(self, factory: Any, params: Mapping[str, Any], target: Any) -> None:
        self.factory = factory
        """Kernels and parameters, as the build of a dialect has them."""
        self.params = params
        """Parameters of the kernels by name."""
        self.target = target
        """Target that the kernels are compiled for."""
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
                self.factory.get_lib().export_library(str(path))
        return path

    @cached_property
    def library(self) -> KernelLibrary:
        """Loaded kernels, whose parallel launches go to our lanes."""
        return KernelLibrary(self.path, shared_runtime())


class ModelKernels(LinkedKernels, Generic[Kernels]):
    """Compiled kernels of one module, with all that is known of its operators."""

    def __init__(self, staged: Kernels) -> None:
        super().__init__(staged.factory, staged.params, staged.target)
        self.staged = staged
