"""Kernel variants: the ways to compute an operator, and the names their prices are stored under.

Whoever chooses a way hands the variant on, and whoever runs it reads the variant. Its name is
derived and never read back: it only tells prices apart, so that none outlives its code.
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
    """Place of an operator's result while it is priced."""

    OWN = ""
    """A tensor of its own, or a view of another one: as in the whole network."""
    APART = "@apart"
    """A tensor of its own, written by its kernel, though a view in the network."""
    COPIED = "@copied"
    """A copy, made by a kernel, of its slice of the merged result; for members of a merge."""
    PIECE = "@piece"
    """A piece of the merged result, in place; for members of a merge."""


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """Call of an operator library that computes an operator."""

    library: str
    """Key of the operator library in files, such as ``cudnn``."""
    name: str
    """Name of the call, with everything that changes its price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVariant:
    """A way to compute an operator, alone or as the member of a merge."""

    workload: str
    """Workload of the operator."""
    code: str = ""
    """Digest of TVM's kernel; empty where nobody asked, ``view`` where none is needed."""
    library: LibraryKernel | None = None
    """Operator library in place of TVM's kernel; for members of a merge, of the merged kernel."""
    split: bool = True
    """True lets idle lanes help."""
    bytes: Bytes = Bytes.OWN
    """Place of the result."""

    @property
    def copied(self) -> bool:
        """True for the member of a merge whose slice is copied."""
        return self.bytes is Bytes.COPIED

    @property
    def name(self) -> str:
        """Name that the price is stored under; different variants have different names."""
        maker = self.code if self.library is None else f"{self.library.library}-{self.library.name}"
        apart = self.bytes.value if self.bytes is Bytes.APART else ""
        slice_ = "" if apart else self.bytes.value
        lanes = "" if self.split else "@one-lane"
        return f"{self.workload}{'@' if maker else ''}{maker}{apart}{lanes}{slice_}"


@dataclass(frozen=True, slots=True)
class VariantGraph(OperatorGraph):
    """Operator graph with a variant for each operator, whose workload is the variant's name."""

    variants: tuple[KernelVariant, ...]


def with_variants(graph: OperatorGraph, variants: Sequence[KernelVariant]) -> VariantGraph:
    """Graph with a variant for each operator."""
    operators = tuple(
        replace(operator, workload=variant.name)
        for operator, variant in zip(graph.operators, variants, strict=True)
    )
    return VariantGraph(graph.name, operators, tuple(variants))


def variants_of(graph: OperatorGraph) -> tuple[KernelVariant, ...]:
    """Variants of a graph; plain ones of its workloads where it has none."""
    if isinstance(graph, VariantGraph):
        return graph.variants
    return tuple(KernelVariant(workload=operator.workload) for operator in graph.operators)


def with_kernel_identity(built: BuiltModel, needs_no_kernel: Callable[[int], bool]) -> VariantGraph:
    """Graph of a built model, with the code of each kernel; ``needs_no_kernel`` tells views.

    Tuning records and pass options give one workload different kernels, and whether a concatenation
    needs a kernel depends on its graph. No price may outlive that.
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
    """Graph with some operators on one lane each."""
    chosen = frozenset(operators)
    return with_variants(
        graph,
        [
            replace(variant, split=False) if index in chosen else variant
            for index, variant in enumerate(variants_of(graph))
        ],
    )


def by_library(graph: VariantGraph, library: str, names: Mapping[int, str]) -> VariantGraph:
    """Graph with calls of an operator library in place of the kernels of some operators.

    The library is named by its key in files, and each call by its operator.
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
    """Graph for the price of a merge stage, in which some members' slices need kernels."""
    return with_variants(
        graph,
        [
            replace(variant, bytes=Bytes.COPIED if index in copied else Bytes.PIECE)
            for index, variant in enumerate(graph.variants)
        ],
    )
