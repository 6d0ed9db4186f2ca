"""What a merge stage hands on: slices of its convolution, and the concatenation that it is.

Members lie one after another along the output channels. Where a concatenation lays the same
operators side by side in the same order, the merged convolution computes it, whatever the batch
size: neither slices nor a kernel for the concatenation are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["CALLER", "MergeOutputs", "merge_outputs"]

CALLER = -1
"""Stands for whoever runs the network among the readers of an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutputs:
    """The tensors a merge stage makes."""

    members: tuple[int, ...]
    """Operators, in the order of their channels."""
    whole: int | None
    """The concatenation that the merged convolution is."""
    sliced: tuple[int, ...]
    """Members that somebody else reads, in the order of their channels."""


def merge_outputs(
    members: Sequence[int],
    joins: Sequence[tuple[int, ...]],
    readers: Sequence[Collection[int]],
) -> MergeOutputs:
    """What a merge stage makes.

    Parameters
    ----------
    members
        Operators, in the order of their channels.
    joins
        For each operator of the graph the operators whose channels it lays side by side, in their
        order; empty for all that is no such concatenation.
    readers
        For each operator who reads it; :data:`CALLER` where it is an output of the network.
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
