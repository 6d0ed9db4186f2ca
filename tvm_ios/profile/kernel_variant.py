"""Kernel variants: the ways an operator may be computed, and the names their prices are kept under.

Who chooses a way hands the variant on, and whoever runs it reads the variant. Its name is derived
from it and never read back: it only tells prices apart, so that none outlives the code it was
taken of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.graph import OperatorGraph

__all__ = [
    "Bytes",
    "KernelVariant",
    "LibraryKernel",
    "VariantGraph",
    "by_library",
    "variants_of",
    "with_kernel_identity",
    "with_slices",
    "with_variants",
    "without_help",
]


class Bytes(Enum):
    """Where the result of an operator comes to lie while it is priced."""

    OWN = ""
    """Bytes in a tensor of its own, or in what it is a view of: as the whole network has it."""
    APART = "@apart"
    """Bytes in a tensor of its own, by its kernel, though the network has it as a view."""
    COPIED = "@copied"
    """Member of a merge: its slice of the merged result is copied by a kernel."""
    PIECE = "@piece"
    """Member of a merge: its slice is a piece of the merged result, where it is."""


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """A call of a library that computes an operator."""

    library: str
    """The name of the library in files, such as ``cudnn``."""
    name: str
    """Name of the call, with all that changes its price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVariant:
    """One way to compute an operator, alone or as the member of a merge."""

    workload: str
    """The workload that is computed."""
    code: str = ""
    """What TVM's kernel is made of; empty where nobody asked, ``view`` where none is needed."""
    library: LibraryKernel | None = None
    """Who computes it in place of TVM's kernel; of the members of a merge, the merged kernel."""
    split: bool = True
    """Whether idle lanes may help."""
    bytes: Bytes = Bytes.OWN
    """Where its result comes to lie."""

    @property
    def copied(self) -> bool:
        """Whether it is the member of a merge whose slice is copied."""
        return self.bytes is Bytes.COPIED

    @property
    def name(self) -> str:
        """What its price is kept under; different for variants that differ."""
        maker = self.code if self.library is None else f"{self.library.library}-{self.library.name}"
        apart = self.bytes.value if self.bytes is Bytes.APART else ""
        slice_ = "" if apart else self.bytes.value
        lanes = "" if self.split else "@one-lane"
        return f"{self.workload}{'@' if maker else ''}{maker}{apart}{lanes}{slice_}"


@dataclass(frozen=True, slots=True)
class VariantGraph(OperatorGraph):
    """An operator graph with the variant of each operator, whose names are its workloads."""

    variants: tuple[KernelVariant, ...]


def with_variants(graph: OperatorGraph, variants: Sequence[KernelVariant]) -> VariantGraph:
    """The graph, each operator computed as its variant says."""
    operators = tuple(
        replace(operator, workload=variant.name)
        for operator, variant in zip(graph.operators, variants, strict=True)
    )
    return VariantGraph(graph.name, operators, tuple(variants))


def variants_of(graph: OperatorGraph) -> tuple[KernelVariant, ...]:
    """The variants of a graph; of one that has none, what nobody has chosen anything of."""
    if isinstance(graph, VariantGraph):
        return graph.variants
    return tuple(KernelVariant(workload=operator.workload) for operator in graph.operators)


def with_kernel_identity(built: BuiltModel, needs_no_kernel: Callable[[int], bool]) -> VariantGraph:
    """The graph of a built model, with the code of each kernel.

    Tuning records and pass options give one workload different kernels, and the graph around a
    concatenation decides whether it needs a kernel at all: no price may outlive that.

    Parameters
    ----------
    needs_no_kernel
        Whether an operator became a view.
    """
    codes = built.kernels.staged.kernel_codes
    return with_variants(
        built.graph,
        [
            KernelVariant(
                workload=operator.workload,
                code="view" if needs_no_kernel(index) else codes[index],
            )
            for index, operator in enumerate(built.graph.operators)
        ],
    )


def without_help(graph: OperatorGraph, operators: Collection[int]) -> VariantGraph:
    """The graph with these operators on one lane each."""
    chosen = frozenset(operators)
    return with_variants(
        graph,
        [
            replace(variant, split=False) if index in chosen else variant
            for index, variant in enumerate(variants_of(graph))
        ],
    )


def by_library(graph: VariantGraph, library: str, names: Mapping[int, str]) -> VariantGraph:
    """The graph with calls of a library in place of the kernels of some operators.

    Parameters
    ----------
    graph
        The graph with other kernels.
    library
        The name of the library in files.
    names
        What the calls are called, by operator.
    """
    return with_variants(
        graph,
        [
            replace(variant, library=LibraryKernel(library, names[index]), split=True)
            if index in names
            else variant
            for index, variant in enumerate(graph.variants)
        ],
    )


def with_slices(graph: VariantGraph, copied: Collection[int]) -> VariantGraph:
    """The graph for the price of a merge stage, which depends on the slices that need kernels."""
    return with_variants(
        graph,
        [
            replace(variant, bytes=Bytes.COPIED if index in copied else Bytes.PIECE)
            for index, variant in enumerate(graph.variants)
        ],
    )
