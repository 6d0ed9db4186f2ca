"""Curve of kernel tuning: time of a network's best kernels by number of candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tvm_ios.runtime.artifact.evidence import CurvePoint
from tvm_ios.tuning.records.record_line import TuningRecord

__all__ = ["tuning_curve"]


def tuning_curve(
    records: Iterable[TuningRecord], weights: Mapping[str, int]
) -> tuple[CurvePoint, ...]:
    """Points at which a kernel became faster, the first and the last candidate among them.

    Before a kernel was tried it counts with its first time: tuners take kernels one by one, and
    nobody times TVM's default schedule. Records come in the order in which they were measured;
    weights say how often the network runs the kernel of each workload, and others are left out.
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
