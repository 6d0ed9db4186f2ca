"""Makes the picture of a run in ``docs/gpu.md``: which operator had which stream of an H100 when.

    python docs/pictures/gpu_timeline.py docs/pictures/inception_h100.png

It draws a trace that ``lab/gpu.py`` kept, so it needs no GPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tvm_ios.report.palette import INK, family_of

TRACE = Path(__file__).parents[2] / "lab/results/gpu/traces/inception_v3_bs1.cudnn.json"

events = [event for event in json.loads(TRACE.read_text())["traceEvents"] if event["ph"] == "X"]
streams = sorted({event["tid"] for event in events})
families = {event["name"]: family_of(event["name"]) for event in events}

figure = Figure(figsize=(10, 2.2), layout="constrained")
FigureCanvasAgg(figure)
axes = figure.add_subplot()
for event in events:
    axes.broken_barh(
        [(event["ts"] / 1e3, event["dur"] / 1e3)],
        (event["tid"] - 0.4, 0.8),
        facecolor=families[event["name"]].fill,
        edgecolor=INK,
        linewidth=0.3,
    )
axes.set_yticks(streams, [f"stream {stream}" for stream in streams])
axes.invert_yaxis()
axes.set_xlabel("ms")
axes.margins(x=0.005)
axes.spines[["top", "right"]].set_visible(False)
axes.set_title("Inception V3 on an H100, IOS with cuDNN, one traced run on streams", loc="left")
kinds = sorted(set(families.values()), key=lambda family: family.label)
figure.legend(
    handles=[
        Patch(facecolor=kind.fill, edgecolor=INK, linewidth=0.3, label=kind.label) for kind in kinds
    ],
    loc="outside lower right",
    ncols=len(kinds),
    frameon=False,
)
figure.savefig(sys.argv[1], dpi=130)
