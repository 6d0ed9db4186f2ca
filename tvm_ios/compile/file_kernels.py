"""Kernels and parameters of a model that was exported before, in the place of a build."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.artifact.artifact import kernels_in, parameters_in, plan_in
from tvm_ios.runtime.artifact.footer import Footer
from tvm_ios.runtime.base.kernel_library import KernelLibrary

__all__ = ["FileKernels"]


class FileKernels:
    """Kernels in an exported file whose footer was read, loaded on first use.

    The file stays open, so whoever drops its name does no harm. ``build`` compiles the kernels
    anew, for those who link them in another way.
    """

    def __init__(self, path: Path, footer: Footer, build: Callable[[], Any]) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, descriptor)
        self.path = Path(f"/proc/self/fd/{descriptor}")
        self._build = build
        self._footer = footer
        self.plan: ExecutionPlan = plan_in(path, footer)
        """Plan in the file, with the calls of operator libraries made ready."""
        self.target = tvm.target.Target(footer.identity.target)

    @cached_property
    def library(self) -> KernelLibrary:
        """Loaded kernels with the executor in their file."""
        return kernels_in(self.path, self.target)

    @cached_property
    def params(self) -> dict[str, tvm.nd.NDArray]:
        """Parameters of the kernels by name."""
        return parameters_in(self.library, self.path, self._footer)

    @cached_property
    def staged(self) -> Any:
        """Kernels before linking, which takes seconds for a large network."""
        return self._build()
