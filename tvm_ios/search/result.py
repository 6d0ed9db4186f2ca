"""What a search found and what it cost to find it."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.core.schedule import InterOpSchedule

__all__ = ["BlockReport", "SearchProgress", "SearchResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReport:
    """Numbers of one schedule block, counted as in table 1 of the paper."""

    operators: tuple[int, ...]
    """Graph indices, ascending."""
    latency_ns: int
    states: int
    """Nonempty predecessor-closed sets."""
    transitions: int
    """Pairs of a state and a last stage; a merge of one operator is not counted."""
    single_merges: int
    """Merges of one operator that the published code counts as transitions on top; 0 unless both
    strategies are searched."""
    distinct_stages: int
    """Stages that could be priced."""
    priced: int
    """Stages that were priced."""
    num_schedules: int
    """Ways from the whole block to the empty state."""
    seconds: float
    """Wall time, pricing included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProgress:
    """A word on a running search, handed to ``progress`` after every batch of prices."""

    block: int
    """Position of the block under work, those of earlier passes counted."""
    num_blocks: int
    """Of all passes."""
    priced: int
    """Stages priced so far, in all blocks."""
    possible: int
    """Stages of the block under work that could be priced."""
    bound_ns: int
    """Lower bound of the block's latency, given the prices so far."""
    best_ns: int
    """Latency of the best schedule so far: of blocks under work and to come, sequential order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A schedule and how it was found."""

    schedule: InterOpSchedule
    latency_ns: int
    """Sum of the prices of the stages."""
    sequential_ns: int
    """Sum of the prices of one operator a stage."""
    blocks: tuple[BlockReport, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    """What the user should know: blocks split, barriers, budget spent."""

    @property
    def states(self) -> int:
        """States of all blocks."""
        return sum(block.states for block in self.blocks)

    @property
    def transitions(self) -> int:
        """Transitions of all blocks."""
        return sum(block.transitions for block in self.blocks)

    @property
    def distinct_stages(self) -> int:
        """Stages that could be priced, in all blocks."""
        return sum(block.distinct_stages for block in self.blocks)

    @property
    def priced(self) -> int:
        """Stages that were priced, in all blocks."""
        return sum(block.priced for block in self.blocks)

    @property
    def num_schedules(self) -> int:
        """Schedules of the whole graph: the product over its blocks."""
        product = 1
        for block in self.blocks:
            product *= block.num_schedules
        return product

    def as_text(self) -> str:
        """The schedule, one line a block, and the notes."""
        lines = [self.schedule.as_text()]
        for number, block in enumerate(self.blocks):
            lines.append(
                f"  block {number}: {len(block.operators)} operators, {block.states} states, "
                f"{block.transitions} transitions, {block.priced} of {block.distinct_stages} "
                f"stages priced, {block.latency_ns / 1e6:.4f} ms, {block.seconds:.3f} s"
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
