"""The state space in C, and the choice between it and the one in Python."""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_int, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.partition import order_ideals
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import HostError, SearchError
from tvm_ios.search.block_graph import BlockGraph, mergeable_sets
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.python_space import PythonStateSpace
from tvm_ios.search.state_space import StateSpace, TooManyTransitionsError
from tvm_ios.support.c_compiler import NativeSource

__all__ = ["MAX_NATIVE_OPERATORS", "STATE_SPACE", "NativeStateSpace", "make_state_space"]

STATE_SPACE = NativeSource(Path(__file__).parent / "native" / "state_space.c")
MAX_NATIVE_OPERATORS = 64
# state_space.c has the same number as COUNT_LIMBS.
_COUNT_LIMBS = 7


def make_state_space(block: BlockGraph, options: SearchOptions) -> StateSpace:
    """The state space of a block: compiled if allowed and possible, else plain Python."""
    if options.native and len(block) <= MAX_NATIVE_OPERATORS and _library() is not None:
        return NativeStateSpace(block, options)
    return PythonStateSpace(block, options)


class NativeStateSpace:
    """The state space in C, for blocks of at most 64 operators; answers are PythonStateSpace's."""

    def __init__(self, block: BlockGraph, options: SearchOptions) -> None:
        library = _library()
        if library is None:
            raise SearchError("the compiled search needs a C compiler; use PythonStateSpace")
        self._library = library
        states = order_ideals(block.predecessors)
        merges = mergeable_sets(block, options)
        failed = c_int(0)
        self._space = library.tvm_ios_space_new(
            len(block),
            _masks(block.successors),
            _masks(block.descendants),
            len(states),
            _masks(states),
            len(merges),
            _masks(merges),
            # C has ints, and these options any whole number. No limit stays 0.
            min(options.max_group_size, len(block)),
            min(options.max_num_groups, len(block)),
            options.endings is EndingRule.COMPLETE,
            Strategy.CONCURRENT in options.strategies,
            options.max_block_transitions,
            byref(failed),
        )
        if not self._space:
            raise _failure(failed.value, len(block), options.max_block_transitions)
        self._finalizer = weakref.finalize(self, library.tvm_ios_space_free, self._space)
        self._num_operators = len(block)
        self.num_states = len(states) - 1
        self.num_merges = len(merges)
        self.num_transitions: int = library.tvm_ios_space_transitions(self._space)
        self.num_sinks: int = library.tvm_ios_space_sinks(self._space)
        stages = library.tvm_ios_space_stages(self._space)
        self.stage_masks: list[int] = library.tvm_ios_space_stage_masks(self._space)[:stages]
        self._group_first: list[int] = library.tvm_ios_space_group_first(self._space)[: stages + 1]
        groups = self._group_first[-1] if stages else 0
        self._group_masks: list[int] = library.tvm_ios_space_group_masks(self._space)[:groups]

    def stage_groups(self, stage: int) -> tuple[int, ...]:
        """Groups of a stage as bit masks, by lowest operator."""
        return tuple(self._group_masks[self._group_first[stage] : self._group_first[stage + 1]])

    def count_schedules(self) -> int:
        """Number of ways from the full state to the empty one; O(transitions)."""
        limbs = (c_uint64 * _COUNT_LIMBS)()
        if not self._library.tvm_ios_space_count_schedules(self._space, limbs):
            raise _failure(1, self._num_operators, 0)
        return sum(limb << 64 * position for position, limb in enumerate(limbs))

    def start(self, prices_ns: Sequence[int], *, priced: bool) -> None:
        """Give every stage a price or a bound, and solve every state."""
        self._library.tvm_ios_space_start(self._space, _int64s(prices_ns), priced)

    def settle(
        self, stages: Sequence[int], prices_ns: Sequence[int], floors_ns: Sequence[int]
    ) -> None:
        """Price stages, raise bounds of stages that contain them, solve the states this reaches."""
        batch = (c_int32 * len(stages))(*stages)
        done = self._library.tvm_ios_space_settle(
            self._space, len(stages), batch, _int64s(prices_ns), _int64s(floors_ns)
        )
        if not done:
            raise _failure(1, self._num_operators, 0)

    def keep_priced_only(self) -> None:
        """Solve every state with priced stages only."""
        self._library.tvm_ios_space_keep_priced_only(self._space)

    def best_weight(self) -> int:
        """Weight of the best way from the full state."""
        weight: int = self._library.tvm_ios_space_best_weight(self._space)
        return weight

    def best_path(self) -> list[int]:
        """Stages of the best way, in the order they run."""
        path = (c_int32 * self._num_operators)()
        length = self._library.tvm_ios_space_best_path(self._space, path)
        return path[:length]


def _failure(code: int, operators: int, limit: int) -> SearchError:
    if code == 2:
        return TooManyTransitionsError(
            f"a block of {operators} operators has more than {limit} transitions; "
            "lower max_group_size, max_num_groups or max_block_states"
        )
    return SearchError(
        f"out of memory in a block of {operators} operators; lower max_block_transitions"
    )


def _masks(values: Sequence[int]) -> ctypes.Array[c_uint64]:
    return (c_uint64 * max(1, len(values)))(*values)


def _int64s(values: Sequence[int]) -> ctypes.Array[c_int64]:
    return (c_int64 * max(1, len(values)))(*values)


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled state space; None where it cannot be had, with the reason logged once."""
    try:
        library = STATE_SPACE.library
    except (HostError, OSError) as error:
        logging.getLogger(__name__).info("searching in plain Python: %s", error)
        return None
    space, masks, numbers = c_void_p, POINTER(c_uint64), POINTER(c_int64)
    sizes = [c_int, c_int, c_int, c_int, c_int64]
    new = [c_int, masks, masks, c_int64, masks, c_int64, masks, *sizes, POINTER(c_int)]
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "new": (space, new),
        "free": (None, [space]),
        "transitions": (c_int64, [space]),
        "stages": (c_int64, [space]),
        "sinks": (c_int64, [space]),
        "stage_masks": (masks, [space]),
        "group_first": (numbers, [space]),
        "group_masks": (masks, [space]),
        "count_schedules": (c_int, [space, masks]),
        "start": (None, [space, numbers, c_int]),
        "settle": (c_int, [space, c_int64, POINTER(c_int32), numbers, numbers]),
        "keep_priced_only": (None, [space]),
        "best_weight": (c_int64, [space]),
        "best_path": (c_int, [space, POINTER(c_int32)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"tvm_ios_space_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
