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
from tvm_ios.devices.traits import Rates
from tvm_ios.profile.operator_prices import TVM

__all__ = [
    "Bytes",
    "KernelVariant",
    "VariantGraph",
    "by_library",
    "unsplit",
    "with_kernel_identity",
    "with_slices",
    "with_variants",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVariant:
    """A way to compute an operator, alone or as the member of a merge."""

    workload: str
    """Workload of the operator."""
    code: str = ""
    """Digest of TVM's kernel; empty where nobody asked, ``view`` where none is needed, ``absent``
    where nobody compiled it."""
    maker: str = TVM
    """Maker of the operator; for members of a merge, maker of the merged convolution."""
    call: str = ""
    """Name of an operator library's call, with everything that changes its price."""
    split: bool = True
    """True lets idle lanes help."""
    bytes: Bytes = Bytes.OWN
    """Place of the result."""
    alone_ns: int = 1
    """Nanoseconds on one lane, about; decides the lane of its group, and how many copies are timed.
    No part of the name."""

    @property
    def copied(self) -> bool:
        """True for the member of a merge whose slice is copied."""
        return self.bytes is Bytes.COPIED

    @property
    def name(self) -> str:
        """Name that the price is stored under; different variants have different names."""
        maker = self.code if self.maker == TVM else f"{self.maker}-{self.call}"
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


def with_kernel_identity(
    built: BuiltModel, needs_no_kernel: Callable[[int], bool], rates: Rates
) -> VariantGraph:
    """Graph of a built model, with the code of each kernel; ``needs_no_kernel`` tells views.

    Times on one lane are guessed by the rates of the device.

    Tuning records and pass options give one workload different kernels, and whether a concatenation
    needs a kernel depends on its graph. No price may outlive that.
    """
    staged = built.kernels.staged
    codes = ["absent" if n in staged.absent_nodes else c for n, c in enumerate(staged.kernel_codes)]
    return with_variants(
        built.graph,
        [
            KernelVariant(
                workload=operator.workload,
                code="view" if needs_no_kernel(index) else codes[index],
                alone_ns=rates.guess_ns(operator),
            )
            for index, operator in enumerate(built.graph.operators)
        ],
    )


def unsplit(
    graph: VariantGraph, operators: Collection[int], alone_ns: Sequence[int] = ()
) -> VariantGraph:
    """Graph with these operators on one lane each, and idle lanes' help for all others.

    Nanoseconds on one lane are those of the graph where omitted.
    """
    chosen = frozenset(operators)
    times_ns = alone_ns or [variant.alone_ns for variant in graph.variants]
    return with_variants(
        graph,
        [
            replace(variant, split=index not in chosen, alone_ns=times_ns[index])
            for index, variant in enumerate(graph.variants)
        ],
    )


def by_library(graph: VariantGraph, library: str, names: Mapping[int, str]) -> VariantGraph:
    """Graph with calls of an operator library in place of the kernels of some operators.

    The library is named by its key in files, and each call by its operator.
    """
    return with_variants(
        graph,
        [
            replace(variant, maker=library, call=names[index]) if index in names else variant
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
