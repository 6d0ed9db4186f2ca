"""What people look at: tables, timelines and pictures, made from stored data only."""

from __future__ import annotations

from tvm_ios.report.chrome_trace import chrome_trace, write_chrome_trace
from tvm_ios.report.figure import draw_schedule
from tvm_ios.report.records import RECORD_VERSION, BenchmarkRecord
from tvm_ios.report.simulated import simulated_trace, write_simulated_trace
from tvm_ios.report.stream_figure import draw_streams
from tvm_ios.report.table import Table, comparison_table

__all__ = [
    "RECORD_VERSION",
    "BenchmarkRecord",
    "Table",
    "chrome_trace",
    "comparison_table",
    "draw_schedule",
    "draw_streams",
    "simulated_trace",
    "write_chrome_trace",
    "write_simulated_trace",
]
