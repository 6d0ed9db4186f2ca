"""Prices of single operators by every maker, and choices that follow from them alone.

Comes between measuring, or predicting, and everything that is decided: all here is a frozen value,
and what is derived from it is pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.cost.efficiencies import Spread
from tvm_ios.measure.sampling import HOPELESS

__all__ = ["EXACT", "LONG_NS", "TVM", "OperatorChoice", "OperatorPrice", "OperatorPrices"]

EXACT = Spread()
"""Error of prices that were measured."""
TVM = "tvm"
"""Maker of operators that TVM's kernels compute; others are keys of operator libraries."""
LEAST_HELP = 0.1
"""Share of the time on one lane that help has to gain: less is within the noise of prices."""
LONG_NS = 50_000
"""Nanoseconds on one lane from which on an operator is always split: half of it is many times the
cost of moving its data. Prices that say otherwise are of a moment when others had that core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPrice:
    """Nanoseconds of an operator by one maker."""

    alone_ns: int
    """Nanoseconds on one lane; an upper bound for a maker that is far slower than another one with
    help."""
    helped_ns: int
    """Nanoseconds with the help of idle lanes; the same where none help."""
    error: Spread = EXACT
    """Factors that two thirds of such prices are off by at most; 1 where measured."""

    @property
    def is_short(self) -> bool:
        """True if help may cost more than it gains."""
        return self.alone_ns < LONG_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPrices:
    """Prices of all operators of a graph by each maker that computes them, each with its error."""

    graph: OperatorGraph
    by_maker: Mapping[str, Mapping[int, OperatorPrice]]
    """Prices by maker and operator. TVM, the first, computes all whose kernels are not absent; a
    library computes the others."""
    idle_lanes_help: bool = True
    """True if operators were also priced with the help of idle lanes."""

    @property
    def predicted(self) -> int:
        """Number of operators whose price by some maker is a prediction."""
        return len(
            {
                index
                for prices in self.by_maker.values()
                for index, price in prices.items()
                if price.error != EXACT
            }
        )

    def refined(self, measured: Mapping[str, Mapping[int, OperatorPrice]]) -> OperatorPrices:
        """Prices with those that were measured in their places, by maker and operator."""
        by_maker = {
            maker: {**prices, **measured.get(maker, {})} for maker, prices in self.by_maker.items()
        }
        return replace(self, by_maker=by_maker)

    def is_unsplit(self, index: int, maker: str) -> bool:
        """True if a short operator gains too little from help.

        Data that move between the caches of two cores are no reason. Long operators before and
        after it are split, so its data move just as well if it is not.
        """
        price = self.by_maker[maker][index]
        gain_ns = price.alone_ns - price.helped_ns
        return self.idle_lanes_help and price.is_short and gain_ns <= LEAST_HELP * price.alone_ns

    def price_ns(self, index: int, maker: str) -> int:
        """Nanoseconds of an operator as it would run: with help, or unsplit."""
        price = self.by_maker[maker][index]
        return price.alone_ns if self.is_unsplit(index, maker) else price.helped_ns

    def fastest_maker(self, index: int) -> str:
        """Maker that computes an operator fastest; among equals the first."""
        able = [maker for maker, prices in self.by_maker.items() if index in prices]
        return min(able, key=lambda maker: self.price_ns(index, maker))

    def is_promising(self, index: int, maker: str) -> bool:
        """True if a maker can compute an operator and is not far slower than the fastest."""
        if index not in self.by_maker[maker]:
            return False
        fastest_ns = self.price_ns(index, self.fastest_maker(index))
        return self.price_ns(index, maker) <= HOPELESS * fastest_ns

    @property
    def own_ratio(self) -> float:
        """Time of all operators with TVM's kernels, over that by their fastest makers.

        Infinite where kernels are absent.
        """
        places = range(len(self.graph))
        if len(self.by_maker[TVM]) < len(places):
            return math.inf
        own_ns = sum(self.price_ns(index, TVM) for index in places)
        return own_ns / sum(self.price_ns(index, self.fastest_maker(index)) for index in places)

    def choice(self) -> OperatorChoice:
        """Fastest maker of each operator, which is split where that pays."""
        makers = tuple(self.fastest_maker(index) for index in range(len(self.graph)))
        unsplit = (index for index, maker in enumerate(makers) if self.is_unsplit(index, maker))
        return OperatorChoice(prices=self, makers=makers, unsplit=tuple(unsplit))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorChoice:
    """Maker of each operator, and operators that idle lanes do not help with."""

    prices: OperatorPrices
    makers: tuple[str, ...]
    unsplit: tuple[int, ...]
    """Operators that stay on one lane, ascending."""

    @property
    def alone_ns(self) -> tuple[int, ...]:
        """Nanoseconds of each operator on one lane, by its maker."""
        return tuple(
            self.prices.by_maker[maker][index].alone_ns for index, maker in enumerate(self.makers)
        )

    @property
    def short(self) -> tuple[int, ...]:
        """Operators so short, by their makers, that help may cost more than it gains."""
        return tuple(
            index
            for index, maker in enumerate(self.makers)
            if self.prices.by_maker[maker][index].is_short
        )

    def made_by(self, maker: str) -> tuple[int, ...]:
        """Operators that a maker computes, ascending."""
        return tuple(index for index, by in enumerate(self.makers) if by == maker)

    def rows(self, libraries: Iterable[str]) -> tuple[LibraryOperators, ...]:
        """Operators of each operator library, as a schedule has them."""
        return tuple(LibraryOperators(library, self.made_by(library)) for library in libraries)

    @classmethod
    def of_rows(
        cls, prices: OperatorPrices, rows: Sequence[LibraryOperators], unsplit: Sequence[int]
    ) -> OperatorChoice | None:
        """Choice that was stored as rows; None where it does not fit the prices."""
        makers = [TVM] * len(prices.graph)
        if not set(unsplit) <= set(range(len(makers))):
            return None
        for row in rows:
            if not set(row.operators) <= prices.by_maker.get(row.library, {}).keys():
                return None
            for index in row.operators:
                makers[index] = row.library
        if any(index not in prices.by_maker[maker] for index, maker in enumerate(makers)):
            return None
        return cls(prices=prices, makers=tuple(makers), unsplit=tuple(unsplit))
