"""The picture of a schedule in a page of its own, to zoom into and to move about."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.report.figure import draw_schedule

__all__ = ["write_schedule_html"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 0; font: 14px sans-serif; color: #222; }}
#picture {{ height: 85vh; overflow: hidden; border-bottom: 1px solid #999; cursor: grab; }}
#picture svg {{ width: 100%; height: 100%; }}
pre {{ margin: 1em; white-space: pre-wrap; }}
</style>
<div id="picture">{svg}</div>
<pre>{text}</pre>
<script>
const svg = document.querySelector("#picture svg");
let box = svg.getAttribute("viewBox").split(" ").map(Number);
const show = () => svg.setAttribute("viewBox", box.join(" "));
svg.addEventListener("wheel", (event) => {{
  event.preventDefault();
  const toPicture = svg.getScreenCTM().inverse();
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(toPicture);
  const by = event.deltaY < 0 ? 0.8 : 1.25;
  box = [at.x - (at.x - box[0]) * by, at.y - (at.y - box[1]) * by, box[2] * by, box[3] * by];
  show();
}}, {{ passive: false }});
svg.addEventListener("pointermove", (event) => {{
  if (!(event.buttons & 1)) return;
  const scale = svg.getScreenCTM().a;
  box[0] -= event.movementX / scale;
  box[1] -= event.movementY / scale;
  show();
}});
</script>
</html>
"""


def write_schedule_html(
    graph: OperatorGraph, schedule: InterOpSchedule, text: str, path: Path
) -> None:
    """Write a page that needs nothing beside it.

    Parameters
    ----------
    graph, schedule
        As for :func:`~tvm_ios.report.figure.draw_schedule`, whose errors are those of this one.
    text
        What stands below the picture.
    path
        The file.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "schedule.svg"
        draw_schedule(graph, schedule, picture)
        drawn = picture.read_text(encoding="utf-8")
    svg = drawn[drawn.index("<svg") :]  # without the XML prologue, which HTML does not have
    page = _PAGE.format(title=html.escape(graph.name), svg=svg, text=html.escape(text))
    path.write_text(page, encoding="utf-8")
