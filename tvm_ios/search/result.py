"""The result of a search: a schedule, and the numbers and time of finding it."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.core.schedule import InterOpSchedule

__all__ = ["BlockReport", "SearchProgress", "SearchResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReport:
    """Numbers of one schedule block, counted as in table 1 of the paper."""

    operators: tuple[int, ...]
    """Graph indices of the block's operators, ascending."""
    latency_ns: int
    states: int
    """Number of nonempty predecessor-closed sets."""
    transitions: int
    """Number of pairs of a state and a last stage, without merges of one operator."""
    single_merges: int
    """Number of merges of one operator, which the published code also counts as transitions; 0
    unless both strategies are searched."""
    distinct_stages: int
    """Number of stages that could be priced."""
    priced: int
    """Number of stages that were priced."""
    num_schedules: int
    """Number of ways from the whole block to the empty state."""
    seconds: float
    """Wall time in seconds, pricing included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProgress:
    """State of a running search, handed to ``progress`` after every batch of prices."""

    block: int
    """Position of the current block, with blocks of earlier passes counted."""
    num_blocks: int
    """Number of blocks of all passes."""
    priced: int
    """Number of stages priced so far, in all blocks."""
    possible: int
    """Number of stages of the current block that could be priced."""
    bound_ns: int
    """Lower bound of the block's latency in nanoseconds, given the prices so far."""
    best_ns: int
    """Latency in nanoseconds of the best schedule so far; unsolved blocks run sequentially."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A schedule and how it was found."""

    schedule: InterOpSchedule
    latency_ns: int
    """Sum of the prices of the stages, in nanoseconds."""
    sequential_ns: int
    """Sum of the prices of single operators, in nanoseconds."""
    blocks: tuple[BlockReport, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    """Lines for the user: blocks split, barriers, budget spent."""

    @property
    def states(self) -> int:
        """Number of states of all blocks."""
        return sum(block.states for block in self.blocks)

    @property
    def transitions(self) -> int:
        """Number of transitions of all blocks."""
        return sum(block.transitions for block in self.blocks)

    @property
    def distinct_stages(self) -> int:
        """Number of stages that could be priced, in all blocks."""
        return sum(block.distinct_stages for block in self.blocks)

    @property
    def priced(self) -> int:
        """Number of stages that were priced, in all blocks."""
        return sum(block.priced for block in self.blocks)

    @property
    def num_schedules(self) -> int:
        """Number of schedules of the whole graph: the product over its blocks."""
        product = 1
        for block in self.blocks:
            product *= block.num_schedules
        return product

    def as_text(self) -> str:
        """Text of the schedule, with a line for each block, and the notes."""
        lines = [self.schedule.as_text()]
        for number, block in enumerate(self.blocks):
            lines.append(
                f"  block {number}: {len(block.operators)} operators, {block.states} states, "
                f"{block.transitions} transitions, {block.priced} of {block.distinct_stages} "
                f"stages priced, {block.latency_ns / 1e6:.4f} ms, {block.seconds:.3f} s"
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
