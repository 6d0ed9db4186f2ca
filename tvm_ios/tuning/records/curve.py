"""The curve of kernel tuning: how fast a network's kernels were after so many candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tvm_ios.runtime.artifact.evidence import CurvePoint
from tvm_ios.tuning.records.record_line import TuningRecord

__all__ = ["tuning_curve"]


def tuning_curve(
    records: Iterable[TuningRecord], weights: Mapping[str, int]
) -> tuple[CurvePoint, ...]:
    """The points at which a kernel became faster, the first and the last candidate among them.

    A kernel counts with its first time until a better one comes, also before it was tried: tuners
    take kernels one by one, and nobody times TVM's default schedule.

    Parameters
    ----------
    records
        In the order in which they were measured.
    weights
        How often the network runs the kernel of each workload; other workloads are passed over.
    """
    chosen = [record for record in records if record.workload in weights]
    best: dict[str, float] = {}
    for record in reversed(chosen):
        if record.ok:
            best[record.workload] = record.mean_s
    total_s = math.fsum(weights[workload] * seconds for workload, seconds in best.items())
    points = {1: total_s} if best else {}
    for number, record in enumerate(chosen, start=1):
        if record.ok and record.mean_s < best[record.workload]:
            best[record.workload] = record.mean_s
            points[number] = math.fsum(weights[each] * seconds for each, seconds in best.items())
    if best:
        points[len(chosen)] = math.fsum(weights[each] * seconds for each, seconds in best.items())
    return tuple(
        CurvePoint(candidates=number, total_ns=round(seconds * 1e9))
        for number, seconds in points.items()
    )
