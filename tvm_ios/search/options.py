"""What a user may ask of the IOS search."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError

__all__ = ["SearchOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Limits and rules of the IOS search.

    Raises
    ------
    OptionError
        If an option has a value the search cannot honour.
    """

    strategies: frozenset[Strategy] = frozenset(Strategy)
    """Kinds of stages to try."""
    max_group_size: int = 3
    """Most operators in a group of a concurrent stage, the paper's r; 0 means no limit."""
    max_num_groups: int = 8
    """Most groups in a concurrent stage, the paper's s; 0 means no limit."""
    endings: EndingRule = EndingRule.COMPLETE
    """Which concurrent stages exist."""
    centred_merges: bool = False
    """Merge only kernels that lie in the middle of the merged one, as the published code does."""
    pad_merged_kernels: bool = True
    """Merge kernels of different sizes, too: zeros around the smaller ones make NaN of an inf or
    NaN of the input, where the convolution alone does not look at it."""
    max_block_size: int = 64
    """Most operators in a schedule block; a longer one is split. The native kernel takes 64."""
    max_block_states: int = 10_000
    """Most states in a schedule block; a wider one is split."""
    max_block_transitions: int = 20_000_000
    """Most transitions in a schedule block, 8 bytes each; a block with more is split."""
    max_chain_size: int = 1
    """Most operators that follow each other with no way round and are scheduled as one unit, as
    the published code does with its ReluSepConv; limits then count units. 1 joins nothing."""
    bound_margin_percent: int = 0
    """The lazy search trusts a bound less this much, for cost models whose prices are noisy."""
    native: bool = True
    """Use the compiled kernel where there is a C compiler; the answers are the same without."""

    def __post_init__(self) -> None:
        if not self.strategies or not all(isinstance(s, Strategy) for s in self.strategies):
            raise OptionError(
                f"strategies is {self.strategies!r}; give a set with Strategy.CONCURRENT, "
                "Strategy.MERGE or both"
            )
        if not isinstance(self.endings, EndingRule):
            raise OptionError(f"endings is {self.endings!r}; give an EndingRule")
        if not isinstance(self.pad_merged_kernels, bool):
            raise OptionError(
                f"pad_merged_kernels is {self.pad_merged_kernels!r}; give True or False"
            )
        for name, least, most in (
            ("max_group_size", 0, None),
            ("max_num_groups", 0, None),
            ("max_block_size", 1, 1000),
            ("max_block_states", 2, 10**6),
            ("max_block_transitions", 1, 10**9),
            ("max_chain_size", 1, 1000),
            ("bound_margin_percent", 0, 100),
        ):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or value < least or (most is not None and value > most):
                limits = (
                    "of 0 or more (0 means no limit)" if most is None else f"from {least} to {most}"
                )
                raise OptionError(f"{name} is {value!r}; give a whole number {limits}")
