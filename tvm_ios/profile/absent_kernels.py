"""Kernels that a build leaves out, since they cannot beat an operator library's call.

Comes between ``prepare`` and ``build``: libraries are asked for the time of each call, which is a
kept fact, and kernels have a bound (:mod:`tvm_ios.cost.kernel_bound`).
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import relay

from tvm_ios.core.graph import Operator
from tvm_ios.cost.kernel_bound import can_win, least_ns, share_of_peak
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.functions.fused_function import describe_calls, describe_function
from tvm_ios.relay.kernels import digest_of_call
from tvm_ios.relay.prepare import PreparedModule
from tvm_ios.relay.record_listeners import may_have_records
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["absent_kernels"]


def absent_kernels(
    prepared: PreparedModule, libraries: Iterable[OperatorLibrary], call: MeasuringCall
) -> frozenset[str]:
    """Functions, by digest, whose kernels cannot beat an operator library's call.

    There are none where tuning records are in force, since a tuned kernel may win, and none on a
    GPU, where kernels share what there is.
    """
    if may_have_records() or not call.device.traits.idle_lanes_help:
        return frozenset()
    extraction = prepared.extraction
    times_ns = call.library_ns(describe_calls(extraction.calls), libraries)
    rows = zip(extraction.calls, extraction.graph.operators, times_ns, strict=True)
    needed: set[str] = set()
    absent: set[str] = set()
    for each, operator, call_ns in rows:
        loses = call_ns is not None and not _can_win(each, operator, call_ns, call.device)
        (absent if loses else needed).add(digest_of_call(each))
    return frozenset(absent - needed)


def _can_win(call: relay.Call, operator: Operator, call_ns: int, device: MeasuringDevice) -> bool:
    function = describe_function(call.op)
    assert function is not None, "a library computes it"
    kernel_ns = least_ns(
        operator,
        share_of_peak(function),
        device.speeds,
        lanes=device.require_lanes(None),  # libraries time their calls on all of them
    )
    return can_win(kernel_ns, call_ns)
