"""Pictures of schedules that belong to a cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import ArtifactError, HostError
from tvm_ios.report.figure import draw_schedule

__all__ = ["draw_if_possible"]


def draw_if_possible(
    graph: OperatorGraph, schedule: InterOpSchedule, path: Path, stage_ns: Sequence[int]
) -> str:
    """Draw a schedule; return the name of the picture, nothing where matplotlib is missing.

    A cell that was measured does not fail for want of its picture.

    Raises
    ------
    ArtifactError
        If the picture cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_schedule(graph, schedule, path, stage_latencies_ns=stage_ns)
    except HostError:
        return ""
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}; choose another --output") from error
    return path.name
