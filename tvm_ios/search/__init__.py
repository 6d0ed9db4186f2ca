"""Schedulers, TVM-free: sequential, greedy, and the IOS dynamic programme, exhaustive or lazy."""

from __future__ import annotations

from tvm_ios.core.endings import EndingRule
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import BlockReport, SearchProgress, SearchResult

__all__ = [
    "BlockReport",
    "EndingRule",
    "SearchOptions",
    "SearchProgress",
    "SearchResult",
    "greedy_schedule",
    "search_ios",
    "sequential_schedule",
]
