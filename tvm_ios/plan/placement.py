"""Placements of operators: the stage and group of each, and the memory that it aliases.

A dialect room makes one :class:`Placement` for every operator of the graph, in its order; both are
lowered to an execution plan. No TVM here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.plan.library_call import LibraryCall

__all__ = ["ConcatView", "Placement", "SliceView"]


@dataclass(frozen=True, slots=True)
class SliceView:
    """View of an operator whose output is a contiguous piece of its only tensor input."""

    byte_offset: int


@dataclass(frozen=True, slots=True)
class ConcatView:
    """View of an operator whose output is its inputs one after another, written in place."""

    byte_offsets: tuple[int, ...]
    """Byte offset at which each input begins, in input order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Stage and group of one operator; operators of one group run in the order of the graph."""

    stage: int
    group: int
    """Position of the group in its stage."""
    lane: int | None = None
    """Home lane of the operator; None for all operators leaves the choice to lowering."""
    cost_ns: int = 0
    """Nanoseconds alone on one lane; 0 where nobody measured."""
    split: bool = True
    """True lets idle lanes help with the kernel's parallel regions."""
    view: SliceView | ConcatView | None = None
    """View that the data layout allows; the memory plan takes it where it can."""
    call: LibraryCall | None = None
    """Call of an operator library that is to compute the operator."""
