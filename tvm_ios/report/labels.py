"""Labels of operators, stages and schedules in pictures, and numbers as people read them."""

from __future__ import annotations

import math

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage

__all__ = ["duration", "operator_label", "schedule_facts", "stage_label", "with_interval"]


def operator_label(operator: Operator) -> str:
    """Kind of an operator in one or two lines; for a convolution with kernel, stride, channels."""
    kind = operator.kind.replace("2d", "").replace("_", " ")
    kind = kind.replace("concatenate", "concat").replace("global avg", "global\navg")
    convolution = operator.convolution
    if convolution is None:
        return kind.replace("depthwise conv", "depthwise\nconv").replace("layout tr", "layout\ntr")
    height, width = convolution.kernel
    stride = "" if convolution.strides == (1, 1) else f" /{convolution.strides[0]}"
    return f"conv {height}\N{MULTIPLICATION SIGN}{width}{stride}\n{convolution.out_channels}"


def stage_label(schedule: InterOpSchedule, number: int) -> list[str]:
    """Lines beside a stage: number, strategy if it has groups, lane if it has one."""
    stage: Stage = schedule.stages[number]
    lines = [f"stage {number}"]
    if stage.is_merge:
        lines.append("merge")
    elif len(stage.groups) > 1:
        lines.append("concurrent")
    if schedule.home_lanes:
        lines.append(f"lane {schedule.home_lanes[stage.operators[0]]}")
    return lines


def schedule_facts(graph: OperatorGraph, schedule: InterOpSchedule) -> list[str]:
    """Facts of a schedule as texts, such as ``26 operators`` and ``18 stages``."""
    stages = len(schedule.stages)
    merged = sum(stage.is_merge for stage in schedule.stages)
    facts = [f"{len(graph)} operators", f"{stages} stage{'s' if stages != 1 else ''}"]
    if merged:
        facts.append(f"{merged} merged")
    if schedule.home_lanes:
        facts.append(f"a list on {schedule.num_home_lanes} lanes")
    if schedule.latency_ns is not None:
        facts.append(f"predicted {schedule.latency_ns / 1e6:.3f} ms")
    return facts


def duration(nanoseconds: float) -> str:
    """Text of a time in microseconds, or in milliseconds if it is one or more."""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1e3:.1f} \N{MICRO SIGN}s"
    return f"{nanoseconds / 1e6:.2f} ms"


def with_interval(value: float, low: float, high: float, unit: str = "") -> str:
    """Text of a value with the interval it lies in: three digits, or more where it bears them.

    >>> with_interval(1.4523, 1.4121, 1.4902)
    '1.45 (1.41 to 1.49)'
    >>> with_interval(1.0041, 1.0008, 1.0066, " ms")
    '1.004 ms (1.001 to 1.007)'
    >>> with_interval(55.04, 42.2, 71.9, " ms")
    '55.0 ms (42.2 to 71.9)'
    """
    half = max(high - value, value - low)
    least = max(0, 2 - math.floor(math.log10(max(1.0, value))))
    digits = min(4, max(least, math.ceil(-math.log10(half)))) if half > 0 else 4
    return f"{value:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"
