"""Options of the IOS search: limits, rules, and kinds of stages to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self, TypeVar

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError
from tvm_ios.support.whole_number import require_flags, require_whole_fields

__all__ = ["SearchOptions"]

_BY_PRICES = {
    "max_chain_size": (3, 1),
    "bound_margin_percent": (3, 0),
    "least_gain_percent": (4.0, 0.0),
    "predict_stages": (True, False),
}
"""Defaults of options that depend on the prices: for measured ones, then for a model's."""
_Choice = TypeVar("_Choice", bound=Enum)


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
    """Largest number of operators in a group of a concurrent stage, the paper's r; 0: no limit."""
    max_num_groups: int = 8
    """Largest number of groups in a concurrent stage, the paper's s; 0: no limit."""
    endings: EndingRule = EndingRule.COMPLETE
    """Rule that says which concurrent stages exist."""
    centred_merges: bool = False
    """True merges only kernels that lie in the middle of the merged one, as the published code
    does."""
    pad_merged_kernels: bool = True
    """True also merges kernels of different sizes. Zeros around the smaller ones turn an inf or NaN
    of the input into NaN where the convolution alone does not read it."""
    max_block_size: int = 64
    """Largest number of operators in a block; longer ones are split. The C search takes 64."""
    max_block_states: int = 10_000
    """Largest number of states in a schedule block; wider ones are split."""
    max_block_transitions: int = 20_000_000
    """Largest number of transitions in a block, 8 bytes each; blocks with more are split."""
    max_chain_size: int | None = None
    """Largest number of operators in a chain without branches that is scheduled as one unit, as in
    the published code's ReluSepConv; other limits then count units. 1 joins nothing. Where omitted,
    3 with measured prices (a depthwise convolution and its neighbours), else 1."""
    bound_margin_percent: int | None = None
    """Per cent that the lazy search takes off a bound, as prices may be noisy. Where omitted, 3
    with measured prices, which scatter by about as much, else 0."""
    least_gain_percent: float | None = None
    """Per cent of sequential order that schedules have to be able to gain, by bounds, for stages to
    be searched; a merged stage has to be able to gain a tenth of it to be priced. Where omitted,
    4 with measured prices, of which schedules reach about half, else 0: everything is searched.
    Not read where kernels share one GPU."""
    predict_stages: bool | None = None
    """True prices only stages of the schedule that is the best by likely prices, until all of that
    is priced; False prices every stage that could be of the best schedule, by bounds. Where
    omitted, True with measured prices, else False. Not read by cost models that do not predict."""
    native: bool = True
    """True uses the search in C where there is a C compiler; the answers are the same without."""
    list_only: bool = False
    """True searches no stages: only single operators are priced, the answer is sequential order,
    and ``tune`` makes its list from that. Options of stages are not read."""
    memory_limit_mb: float | None = None
    """Megabytes (1e6 bytes) that ``tune`` plans for activations at most; None sets no limit. Stages
    of a schedule that needs more run in order where memory is fullest. Inputs, outputs and
    parameters do not count. Not read by a search of its own."""
    deadlines_ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds from the start of a run until which ``tune`` wants parts of a network of several
    models to be done, by part. Lists have such a part first, and a schedule that is in time is kept
    before a faster one that is not. Not read by a search of its own."""

    def __post_init__(self) -> None:
        if not self.strategies or not all(isinstance(s, Strategy) for s in self.strategies):
            raise OptionError(
                f"strategies is {self.strategies!r}; give a set with Strategy.CONCURRENT, "
                "Strategy.MERGE or both"
            )
        if not isinstance(self.endings, EndingRule):
            raise OptionError(f"endings is {self.endings!r}; give an EndingRule")
        require_flags(self)
        no_limit = " (0 means no limit)"
        require_whole_fields(self, note=no_limit, max_group_size=0, max_num_groups=0)
        if not isinstance(self.predict_stages, bool | None):
            raise OptionError(
                f"predict_stages is {self.predict_stages!r}; give True or False, or leave it out"
            )
        require_whole_fields(
            self,
            max_block_size=(1, 1000),
            max_block_states=(2, 10**6),
            max_block_transitions=(1, 10**9),
            max_chain_size=(1, 1000),
            bound_margin_percent=(0, 100),
        )

        limit = self.memory_limit_mb
        if limit is not None and not (isinstance(limit, int | float) and 0 < limit < math.inf):
            raise OptionError(
                f"memory_limit_mb is {limit!r}; give megabytes above 0, or leave it out"
            )
        for part, deadline_ms in self.deadlines_ms.items():
            if not (isinstance(deadline_ms, int | float) and 0 < deadline_ms < math.inf):
                raise OptionError(
                    f"deadlines_ms has {deadline_ms!r} for {part!r}; give milliseconds above 0"
                )
        least = self.least_gain_percent
        if least is not None and not (math.isfinite(least) and 0 <= least < 100):
            raise OptionError(
                f"least_gain_percent is {least}; give per cent from 0, which searches everything, "
                "to 100"
            )

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Options as users write them: strategies (one or several) and endings by member or name.

        Examples
        --------
        >>> SearchOptions.of(strategies="merge", endings="published").strategies
        frozenset({<Strategy.MERGE: 'merge'>})
        """
        return cls().changed(**given)

    def changed(self, **given: Any) -> Self:
        """The options with some of them changed, which users write as in :meth:`of`."""
        of_stages = given.keys() - {"list_only", "memory_limit_mb", "deadlines_ms"}
        if self.list_only and of_stages and "list_only" not in given:
            raise OptionError(
                f"{', '.join(sorted(of_stages))} given, but list_only is True and no stages are "
                "searched; give list_only=False (--no-list-only) as well"
            )
        if "strategies" in given:
            given["strategies"] = _strategies(given["strategies"])
        if "endings" in given:
            given["endings"] = _member("endings is", given["endings"], EndingRule)
        return replace(self, **given)

    def without_merges(self) -> Self:
        """The options without merged convolutions, which take sums in another order than TVM."""
        left = self.strategies - {Strategy.MERGE}
        if not left:
            raise OptionError(
                "exact is True, but the only strategy is merging, which gives sums other bits; "
                "leave out one of them"
            )
        return replace(self, strategies=left)

    def is_worth(self, at_most: float) -> bool:
        """True if measured prices that let stages gain at most so many times ask for a search."""
        return at_most >= 1 + (self.completed(measured=True).least_gain_percent or 0) / 100

    def without_concurrency(self) -> Self:
        """The options without concurrent stages: merges alone, or single operators."""
        if self.list_only or Strategy.MERGE not in self.strategies:
            return replace(self, list_only=True)
        return replace(self, strategies=frozenset({Strategy.MERGE}))

    def completed(self, *, measured: bool) -> Self:
        """The options with the defaults that depend on the source of the prices."""
        if self.list_only:
            return replace(
                self,
                max_block_size=1,
                max_chain_size=1,
                bound_margin_percent=0,
                least_gain_percent=0.0,
                predict_stages=False,
            )
        missing: dict[str, Any] = {
            name: values[0 if measured else 1]
            for name, values in _BY_PRICES.items()
            if getattr(self, name) is None
        }
        return replace(self, **missing)


def _strategies(given: Any) -> frozenset[Strategy]:
    several = f"give one or several of {_names(Strategy)}"
    if isinstance(given, str | Strategy):
        given = (given,)
    if not isinstance(given, Iterable):
        raise OptionError(f"strategies is {given!r}; {several}")
    found = frozenset(_member("strategies has", each, Strategy) for each in given)
    if not found:
        raise OptionError(f"strategies is empty; {several}")
    return found


def _member(what: str, given: Any, kind: type[_Choice]) -> _Choice:
    try:
        return kind(given)
    except ValueError as error:
        raise OptionError(f"{what} {given!r}; choose from {_names(kind)}") from error


def _names(kind: type[Enum]) -> str:
    return ", ".join(repr(member.value) for member in kind)
