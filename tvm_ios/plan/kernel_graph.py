"""The graph of kernels that lowering starts from: tensors, and the kernels between them. No TVM.

A dialect makes it from what its compiler wrote; nobody else reads that format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["GraphOperator", "GraphTensor", "KernelGraph"]


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor of the graph: an input, a parameter, or an output of an operator."""

    shape: tuple[int, ...]
    dtype: str
    """Data type as arrays name it: truth values are ``bool``, not ``uint1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOperator:
    """An operator of the graph: one call of a kernel, or a reshape that needs none."""

    name: str
    kernel: str | None
    """Symbol of the kernel; None for a reshape, whose output is its input."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flatten: bool
    """True where the kernel takes every argument as a one-dimensional tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGraph:
    """Operators in an order in which every one follows those it reads."""

    tensors: tuple[GraphTensor, ...]
    operators: tuple[GraphOperator, ...]
    inputs: tuple[tuple[str, int], ...]
    """Name and tensor of every input and parameter, in the order a caller gives them."""
    outputs: tuple[int, ...]

    def alone(self, index: int) -> KernelGraph:
        """A graph of one operator, whose inputs are graph inputs."""
        operator = self.operators[index]
        sources = tuple(dict.fromkeys(operator.inputs))
        count = len(sources)
        outputs = tuple(range(count, count + len(operator.outputs)))
        return KernelGraph(
            tensors=tuple(self.tensors[tensor] for tensor in (*sources, *operator.outputs)),
            operators=(
                replace(
                    operator,
                    inputs=tuple(sources.index(tensor) for tensor in operator.inputs),
                    outputs=outputs,
                ),
            ),
            inputs=tuple((f"input_{number}", number) for number in range(count)),
            outputs=outputs,
        )

    def without_outputs(self) -> KernelGraph:
        """A copy of the graph whose only output is its first input.

        So its computation may be a view of a larger tensor, which outputs of a network may not be.
        """
        return replace(self, outputs=(self.inputs[0][1],))
