"""Predicted prices of operators, from the speeds of a lane and the efficiencies of makers. No TVM.

Comes in place of measuring where seconds count, and beside it, to tell how far off it is. A
prediction is a price with an error, so all that follows from prices follows from it, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist, median

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.cost.efficiencies import Efficiencies, Spread, kind_of
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.profile.operator_prices import OperatorPrice, OperatorPrices

__all__ = ["PricePredictor", "close_calls", "how_far_off"]

FOUND_ERROR = Spread(faster=1.05, slower=1.08)
"""Error of a time that an operator library found by itself: of the call on all lanes, its data in
their caches."""
SHORT_FOUND_NS = 4_000
SHORT_FOUND_ERROR = Spread(faster=1.75, slower=1.08)
"""Error of found times below :data:`SHORT_FOUND_NS`: they hold the start and end of a run. Of 29
such calls in three networks, eight took less than 0.7 of what was found."""
WORTH = 0.01
"""Share of a network's time that may be lost by makers that are chosen by prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePredictor:
    """Predictor of prices on one device."""

    speeds: LaneSpeeds
    lanes: int
    """Number of lanes that help each other."""
    efficiencies: Efficiencies

    def prices(
        self,
        graph: OperatorGraph,
        able: Mapping[str, Collection[int]],
        *,
        found_ns: Mapping[str, Mapping[int, int]],
        needs_no_kernel: Callable[[int], bool],
    ) -> OperatorPrices:
        """Prices of all operators by each maker.

        Parameters
        ----------
        able
            Operators that each maker computes; TVM first, which computes all.
        found_ns
            Nanoseconds on all lanes that operator libraries found, by library and operator.
        needs_no_kernel
            True for operators that are views, and cost nothing.
        """
        return OperatorPrices(
            graph=graph,
            by_maker={
                maker: {
                    index: OperatorPrice(alone_ns=1, helped_ns=1)
                    if needs_no_kernel(index)
                    else self.price(
                        graph.operators[index], maker, found_ns.get(maker, {}).get(index)
                    )
                    for index in sorted(each)
                }
                for maker, each in able.items()
            },
        )

    def with_usual_help(self, prices: OperatorPrices) -> OperatorPrices:
        """Measured prices with predicted help of idle lanes where that is more than was measured.

        Another process on the second core, and hand-offs in a virtual machine's slow mode, hide
        what help gains. Times on one lane are what they always are.
        """

        def price(index: int, maker: str, measured: OperatorPrice) -> OperatorPrice:
            row = self.efficiencies.of(prices.graph.operators[index], maker)
            usual_ns = max(1, round(measured.alone_ns / row.speedup(self.lanes)))
            return replace(measured, helped_ns=min(measured.helped_ns, usual_ns))

        return replace(
            prices,
            by_maker={
                maker: {index: price(index, maker, measured) for index, measured in each.items()}
                for maker, each in prices.by_maker.items()
            },
        )

    def price(self, operator: Operator, maker: str, found_ns: int | None = None) -> OperatorPrice:
        """Price of an operator by a maker; a time that was found counts for all lanes."""
        row = self.efficiencies.of(operator, maker)
        speedup = row.speedup(self.lanes)
        if found_ns is not None:
            helped_ns = float(found_ns)
            error = FOUND_ERROR if found_ns >= SHORT_FOUND_NS else SHORT_FOUND_ERROR
        else:
            bound_ns = self.speeds.bound_ns(operator.flops, operator.memory_bytes)
            helped_ns, error = bound_ns / row.reached / speedup, row.spread
        return OperatorPrice(
            alone_ns=max(1, round(helped_ns * speedup)),
            helped_ns=max(1, round(helped_ns)),
            error=error,
        )


def close_calls(prices: OperatorPrices, worth: float = WORTH) -> tuple[int, ...]:
    """Operators whose two fastest makers are closer than the errors of their prices, ascending.

    Those with the greatest expected loss come in until what is left may cost less than a share
    ``worth`` of the network. Equal operators count together.
    """
    alike: dict[str, list[int]] = defaultdict(list)
    for index, operator in enumerate(prices.graph.operators):
        alike[operator.workload].append(index)
    losses_ns = {
        workload: len(each) * _expected_loss_ns(prices, each[0]) for workload, each in alike.items()
    }
    allowed_ns = worth * sum(
        prices.price_ns(index, prices.fastest_maker(index)) for index in range(len(prices.graph))
    )
    left_ns = sum(losses_ns.values())
    close: list[int] = []
    for workload in sorted(losses_ns, key=losses_ns.__getitem__, reverse=True):
        if left_ns <= allowed_ns:
            break
        left_ns -= losses_ns[workload]
        close += alike[workload]
    return tuple(sorted(close))


def _expected_loss_ns(prices: OperatorPrices, index: int) -> float:
    """Nanoseconds that the second fastest maker is expected to be faster by, if it is.

    The logarithm of the ratio of both is normal, about, with the errors as deviations.
    """
    able = [maker for maker, each in prices.by_maker.items() if index in each]
    if len(able) == 1:
        return 0.0
    first, second, *_ = sorted(able, key=lambda maker: prices.price_ns(index, maker))
    first_ns, second_ns = (prices.price_ns(index, maker) for maker in (first, second))
    slower = prices.by_maker[first][index].error.slower
    faster = prices.by_maker[second][index].error.faster
    deviation = math.hypot(math.log(slower), math.log(faster))
    if deviation == 0:
        return 0.0
    distance, normal = math.log(second_ns / first_ns) / deviation, NormalDist()
    return first_ns * deviation * (normal.pdf(distance) - distance * normal.cdf(-distance))


def how_far_off(
    predicted: OperatorPrices, measured: OperatorPrices, needs_no_kernel: Callable[[int], bool]
) -> str:
    """Line on how far predictions were off, by kind, for the fastest maker of each operator."""
    ratios: dict[str, list[float]] = defaultdict(list)
    both_ns = [0, 0]
    for index, operator in enumerate(measured.graph.operators):
        if needs_no_kernel(index):
            continue
        maker = measured.fastest_maker(index)
        pair = (predicted.price_ns(index, maker), measured.price_ns(index, maker))
        ratios[kind_of(operator)].append(pair[0] / pair[1])
        both_ns = [total + ns for total, ns in zip(both_ns, pair, strict=True)]
    if not ratios:
        return ""
    kinds = sorted(ratios, key=lambda kind: -len(ratios[kind]))
    each = ", ".join(
        f"{kind} {_middle_error(ratios[kind]):.2f} ({len(ratios[kind])})" for kind in kinds
    )
    return (
        f"a prediction of all operators would have been {both_ns[0] / 1e6:.3g} ms, and "
        f"{both_ns[1] / 1e6:.3g} ms were measured; factors that half of them are off by at most: "
        f"{each}"
    )


def _middle_error(ratios: Iterable[float]) -> float:
    return math.exp(median(abs(math.log(ratio)) for ratio in ratios))
