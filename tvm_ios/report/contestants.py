"""Contestants of the races that ``tune`` ends with, each explained in a line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

__all__ = ["ABOUT", "GIVEN", "STOCK_ALL", "STOCK_ONE", "Contestant"]

STOCK_ONE = "TVM, 1 thread"
STOCK_ALL = "TVM, all threads"


class Contestant(Enum):
    """Contestant of the race that ends a tuning."""

    SEQUENTIAL = "sequential"
    GREEDY = "greedy"
    IOS = "ios"
    IOS_LIST = "ios + list"
    """List made from the IOS schedule: no stages, operators on lanes."""
    DUE_FIRST = "sequential, due parts first"
    """Sequential order in which parts with deadlines come first."""
    PARTS = "each part as it is faster alone"
    """List of a joined network in which parts that lose as a list are in order."""
    OWN_KERNELS = "sequential, TVM's kernels"
    """Sequential order without operator libraries; races where libraries compute operators."""
    UNTUNED_GREEDY = "greedy, untuned kernels"
    """Greedy schedule that the call would have found without tuned kernels."""
    UNTUNED_IOS = "ios, untuned kernels"
    UNTUNED_IOS_LIST = "ios + list, untuned kernels"
    GIVEN = "given decisions"
    """Decisions of another tuning, from the first file that was given."""
    GIVEN_2 = "given decisions 2"
    GIVEN_3 = "given decisions 3"
    GIVEN_4 = "given decisions 4"


GIVEN = (Contestant.GIVEN, Contestant.GIVEN_2, Contestant.GIVEN_3, Contestant.GIVEN_4)
"""Contestants of files of decisions, by the order of the files."""
_SEARCHED = "stages found by the dynamic programme of the IOS paper, from measured prices"
_LISTED = "no stages: each lane has a list of operators, which wait for their data only"
_GIVEN = "decisions of another tuning, from a file that was given"
_GREEDY = "each stage runs all operators that are ready, without any price"
ABOUT: Mapping[str, str] = MappingProxyType(
    {
        Contestant.SEQUENTIAL.value: "one operator after another, each split over the lanes "
        "where that pays; the same kernels as the rest",
        Contestant.GREEDY.value: _GREEDY,
        Contestant.IOS.value: _SEARCHED,
        Contestant.IOS_LIST.value: _LISTED,
        Contestant.DUE_FIRST.value: "one operator after another, first those that parts with "
        "deadlines need",
        Contestant.PARTS.value: "parts that are faster alone as a list are one, and lanes take the "
        "others in order where they have nothing else to do",
        Contestant.OWN_KERNELS.value: "sequential order without operator libraries",
        Contestant.UNTUNED_GREEDY.value: f"{_GREEDY}; kernels as TVM has them untuned",
        Contestant.UNTUNED_IOS.value: f"{_SEARCHED}; kernels as TVM has them untuned",
        Contestant.UNTUNED_IOS_LIST.value: f"{_LISTED}; kernels as TVM has them untuned",
        **dict.fromkeys((each.value for each in GIVEN), _GIVEN),
        STOCK_ONE: "the model as given, compiled by TVM alone, on one thread",
        STOCK_ALL: "the model as given, compiled by TVM alone, each operator on all threads",
    }
)
"""Explanations by name of a contestant."""
