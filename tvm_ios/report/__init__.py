"""Tables, timelines and pictures for people, made from stored data only."""

from __future__ import annotations

from tvm_ios.report.chrome_trace import chrome_trace, write_chrome_trace
from tvm_ios.report.figure import draw_schedule
from tvm_ios.report.table import Table, comparison_table

__all__ = [
    "Table",
    "chrome_trace",
    "comparison_table",
    "draw_schedule",
    "write_chrome_trace",
]
