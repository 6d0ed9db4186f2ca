"""Placements of operators: where each runs and what it aliases, beyond the graph of kernels.

A dialect room makes one :class:`Placement` for every operator of the graph, in its order; both are
lowered to an execution plan. No TVM here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.plan.library_call import LibraryCall

__all__ = ["ConcatView", "Placement", "SliceView"]


@dataclass(frozen=True, slots=True)
class SliceView:
    """The output is a contiguous piece of the only tensor input, so it needs no kernel."""

    byte_offset: int


@dataclass(frozen=True, slots=True)
class ConcatView:
    """The output is the inputs laid one after another, so producers may write straight into it."""

    byte_offsets: tuple[int, ...]
    """Where each input begins, in input order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Stage and group of one operator; operators of one group run in the order of the graph."""

    stage: int
    group: int
    """Position of the group in its stage."""
    lane: int | None = None
    """Lane the operator calls home; None leaves the choice to lowering, all or none of them."""
    cost_ns: int = 0
    """Time alone on one lane, in nanoseconds; 0 where nobody measured."""
    split: bool = True
    """Whether idle lanes may help with the kernel's parallel regions."""
    view: SliceView | ConcatView | None = None
    """An opportunity, true of the data layout; the memory plan takes it where it can."""
    call: LibraryCall | None = None
    """The call of a library that is to compute it."""
