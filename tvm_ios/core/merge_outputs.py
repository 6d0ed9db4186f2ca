"""Outputs of a merge stage: slices of its convolution, or the concatenation it computes.

Members lie one after another along the output channels. A concatenation of the same operators in
the same order is the merged convolution itself, whatever the batch size: neither slices nor a
kernel for the concatenation are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["CALLER", "MergeOutputs", "merge_outputs", "merged_name"]

CALLER = -1
"""Reader that stands for whoever runs the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutputs:
    """The tensors that a merge stage makes."""

    members: tuple[int, ...]
    """Operators, in the order of their channels."""
    whole: int | None
    """Concatenation that the merged convolution computes; None without one."""
    sliced: tuple[int, ...]
    """Members that others read, in the order of their channels."""


def merged_name(members: Sequence[str]) -> str:
    """Name of a merged convolution for people, from those of its members."""
    return "+".join(members)


def merge_outputs(
    members: Sequence[int],
    joins: Sequence[tuple[int, ...]],
    readers: Sequence[Collection[int]],
) -> MergeOutputs:
    """The tensors that a merge stage makes.

    Parameters
    ----------
    joins
        For each operator of the graph, the operators whose channels it concatenates, in their
        order; empty for other operators.
    readers
        For each operator, its readers; :data:`CALLER` where it is an output of the network.
    """
    order = tuple(members)
    whole = next((index for index, joined in enumerate(joins) if joined == order), None)
    return MergeOutputs(
        members=order,
        whole=whole,
        sliced=tuple(
            member for member in order if any(reader != whole for reader in readers[member])
        ),
    )
