"""Kernels that a build leaves out, since they cannot beat an operator library's call.

Comes between ``prepare`` and ``build``: libraries are asked for the time of each call, which is a
kept fact, and kernels have a bound (:mod:`tvm_ios.cost.kernel_bound`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.graph import Operator
from tvm_ios.cost.kernel_bound import can_win, least_ns, share_of_peak
from tvm_ios.profile.measuring_call import MeasuringCall

__all__ = ["absent_kernels"]

Functions = Sequence[FusedFunction | None]
"""Function of each operator, in graph order; None of what no library could compute."""


def absent_kernels(
    kernels: Sequence[str],
    functions: Functions,
    operators: Sequence[Operator],
    times_ns: Sequence[int | None],
    call: MeasuringCall,
) -> frozenset[str]:
    """Kernels that cannot beat an operator library's call, of those of all operators.

    ``times_ns`` is ``library_ns`` of the call. There are none on a GPU, where kernels share what
    there is.
    """
    device = call.device
    if not device.traits.idle_lanes_help:
        return frozenset()
    needed: set[str] = set()
    absent: set[str] = set()
    for kernel, function, operator, call_ns in zip(
        kernels, functions, operators, times_ns, strict=True
    ):
        loses = False
        if function is not None and call_ns is not None:
            lanes = device.require_lanes(None)  # libraries time their calls on all of them
            kernel_ns = least_ns(operator, share_of_peak(function), device.speeds, lanes=lanes)
            loses = not can_win(kernel_ns, call_ns)
        (absent if loses else needed).add(kernel)
    return frozenset(absent - needed)
