"""Makes the picture of ``docs/gpu.md``: a schedule of a NASNet cell on four streams.

    python docs/pictures/streams.py docs/pictures/nasnet_cell_streams.png

The schedule is searched with the model of an H100, and compiled for it: needs nvcc and no GPU.
"""

from __future__ import annotations

import sys

import tvm_ios
from tvm_ios.models import nasnet_small
from tvm_ios.search import SearchOptions, search_ios
from tvm_ios_lab.analytical.timeline_model import AnalyticalGpuCost
from tvm_ios_lab.figures.stream_figure import draw_streams

TARGET = "cuda -arch=sm_90"

mod, params = nasnet_small(num_cells=1)
graph = tvm_ios.compile_schedule(mod, params, TARGET).graph
found = search_ios(graph, AnalyticalGpuCost("h100"), SearchOptions(max_chain_size=3))
model = tvm_ios.compile_schedule(mod, params, TARGET, schedule=found.schedule, lanes=4)
stages = len(found.schedule.stages)
title = f"One NASNet cell (24 channels at 14x14): {stages} stages, found with the model of an H100"
draw_streams(model.plan, sys.argv[1], title=title)
