"""Kernels that a build leaves out, since they cannot beat an operator library's call.

Comes between ``prepare`` and ``build``: libraries are asked for the time of each call, which is a
kept fact, and kernels have a bound (:mod:`tvm_ios.cost.kernel_bound`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.graph import Operator
from tvm_ios.cost.kernel_bound import can_win, least_ns, share_of_peak
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.runtime.libraries.placed_calls import library_calls
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["absent_kernels", "library_ns"]

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

    ``times_ns`` is :func:`library_ns`. There are none on a GPU, where kernels share what there is.
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


def library_ns(
    functions: Functions, libraries: Iterable[OperatorLibrary], call: MeasuringCall
) -> list[int | None]:
    """Nanoseconds of the fastest library's call for each operator; None where there is none."""
    found: list[int | None] = [None] * len(functions)
    with call.open() as session:
        for library in libraries:
            opened = session.libraries(call.database).open(library)
            able = {n: each for n, each in enumerate(library_calls(functions, library)) if each}
            complete = opened.complete(each.descriptor for each in able.values())
            for index, each in able.items():
                made = complete[each.descriptor]
                time_ns = None if made is None else opened.found_ns(made)
                if time_ns is not None:
                    found[index] = min(time_ns, found[index] or time_ns)
    return found
