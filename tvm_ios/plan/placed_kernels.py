"""The noun that every dialect's build is: kernels in a file, and where a schedule puts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.placement import Placement

__all__ = ["PlacedKernels"]


class PlacedKernels(Protocol):
    """Compiled kernels of one module, in whichever dialect; all that lowering asks for."""

    @property
    def graph(self) -> KernelGraph:
        """Kernels, and the tensors between them."""

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Place of each operator of :attr:`graph`, in its order."""

    @property
    def operator_names(self) -> tuple[str, ...]:
        """Name of each operator of :attr:`graph`, in its order; unique."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Constants, as arrays of the dialect's TVM, by the names of the graph's inputs."""

    @property
    def target(self) -> Any:
        """Target that the kernels are compiled for, as the dialect's TVM has it."""

    @property
    def factory(self) -> Any:
        """Kernels that can be exported, with constants or (``get_lib()``) without."""
