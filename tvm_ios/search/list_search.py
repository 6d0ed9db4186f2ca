"""Search of a short list: lists are drawn at random, and the best are changed step by step.

Lists are drawn around upward ranks and around the order of the tasks, with help and without. Each
is simulated by ``list_decoder.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_ios.search.list_decoder import ListDecoder, ListProblem, Timeline
from tvm_ios.support.whole_number import require_whole_fields

__all__ = ["ListOptions", "best_list"]

_CHAINS = 16
"""Number of lists that are improved side by side."""
_STEPS_APART = 200
"""Steps after which the worst quarter of the chains goes on from the best."""
_WARMTH = 0.005
"""Share by which a list may become longer in a step, on average, at the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Effort of list scheduling."""

    draws: int = 2000
    """Number of lists drawn at random; 0 leaves the start and upward ranks."""
    moves: int = 24_000
    """Number of lists made of the best ones by moving tasks."""
    seed: int = 0
    """Seed of the random numbers; equal seeds give equal schedules with the same NumPy."""

    def __post_init__(self) -> None:
        require_whole_fields(self, draws=0, moves=0, seed=0)


def best_list(
    problem: ListProblem, decoder: ListDecoder, options: ListOptions
) -> NDArray[np.float64]:
    """Shortest list found, of the shape (2, tasks); among equals the first."""
    if not problem.tasks:
        return np.zeros((2, 0))
    draw = np.random.default_rng(options.seed)
    lists = _drawn_lists(problem, draw, options.draws)
    lengths = decoder.lengths_ns(lists)
    first = np.argsort(lengths, kind="stable")[:_CHAINS]
    lists, lengths = lists[first], lengths[first]
    # Steps move tasks by places, so neighbours in a list have to be one apart, whatever was drawn.
    for row in lists:
        row[0] = _as_positions(decoder.timeline(row))
    best: NDArray[np.float64] = lists[0].copy()
    best_ns = lengths[0]
    steps = options.moves // len(lists)
    for step in range(steps):
        # Annealing: a longer list is taken now and then, ever less so.
        allowed_ns = _WARMTH * best_ns * (1 - step / steps) * draw.exponential(size=len(lists))
        changed = _with_tasks_changed(lists, draw)
        changed_ns = decoder.lengths_ns(changed)
        taken = changed_ns <= lengths + allowed_ns
        lists[taken], lengths[taken] = changed[taken], changed_ns[taken]
        if lengths.min() < best_ns:
            best, best_ns = lists[lengths.argmin()].copy(), lengths.min()
        if step % _STEPS_APART == _STEPS_APART - 1:
            ranked = np.argsort(lengths, kind="stable")
            share = len(lists) // 4
            worst, leading = ranked[len(lists) - share :], ranked[:share]
            lists[worst], lengths[worst] = lists[leading], lengths[leading]
    return best


def _drawn_lists(
    problem: ListProblem, draw: np.random.Generator, draws: int
) -> NDArray[np.float64]:
    """Lists to begin with: the start's order, upward ranks, both with and without help, and draws.

    Half of the draws are around each; half have all tasks helped.
    """
    count = len(problem.tasks)
    in_order = -np.arange(count, dtype=np.float64)
    scales = draw.uniform(0.0, count / 4, (draws // 2, 1))
    moved = in_order + scales * draw.normal(size=(draws // 2, count))
    varied = _varied_ranks(problem, draw, draws - draws // 2)
    firsts = [in_order, problem.upward_ranks()]
    if problem.is_due:
        urgent_first = np.argsort(problem.latest_ns(), kind="stable")
        firsts.append(-np.argsort(urgent_first).astype(np.float64))
    basic = np.repeat(np.stack(firsts), 2, axis=0)
    keys = np.concatenate([basic, varied, moved])
    helped = np.ones_like(keys)
    helped[::2] = -1
    return np.stack([keys, helped], axis=1)


def _with_tasks_changed(
    lists: NDArray[np.float64], draw: np.random.Generator
) -> NDArray[np.float64]:
    """Lists with about one to four tasks changed: moved by about 1 to 32 places, or in help."""
    rows, _, count = lists.shape
    changing = draw.random(lists.shape) < draw.integers(1, 5, (rows, 1, 1)) / count
    moved = lists[:, 0] + 2.0 ** draw.integers(0, 6, (rows, 1)) * draw.normal(size=(rows, count))
    return np.where(changing, np.stack([moved, -lists[:, 1]], axis=1), lists)


def _varied_ranks(
    problem: ListProblem, draw: np.random.Generator, count: int
) -> NDArray[np.float64]:
    """Upward ranks, a row for each of ``count`` draws in which tasks cost up to twice as much."""
    costs_ns = np.array([task.alone_ns for task in problem.tasks], np.float64)
    varied = (costs_ns * draw.uniform(0.0, 2.0, (count, len(costs_ns)))).T
    ranks = np.zeros_like(varied)
    for number in range(len(problem.tasks) - 1, -1, -1):
        ranks[number] += varied[number]
        for source in problem.tasks[number].sources:
            way_ns = ranks[number] + problem.signal_ns + source.fetch_ns
            np.maximum(ranks[source.task], way_ns, out=ranks[source.task])
    return ranks.T


def _as_positions(timeline: Timeline) -> NDArray[np.float64]:
    """Keys that place tasks in the order of a timeline, one apart."""
    keys = np.zeros(len(timeline.order))
    keys[list(timeline.order)] = -np.arange(len(timeline.order))
    return keys
