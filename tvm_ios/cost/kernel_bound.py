"""Bound on the time of a kernel that nobody compiled yet.

Comes before the build, which leaves out kernels that cannot beat an operator library's call. No TVM
here.
"""

from __future__ import annotations

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.graph import Operator
from tvm_ios.host.lane_speeds import LaneSpeeds

__all__ = ["can_win", "least_ns", "share_of_peak"]

SHARE = 0.9
"""Share of a core's peak that no compiled kernel exceeds: the best of TVM's reach 0.89."""
CHANNELS_LAST_SHARE = 0.5
"""Such a share for convolutions of all channels with channels last. The best of TVM's reach 0.5,
most 0.25, and some 0.01, where a library's calls reach 0.75 to 0.98."""
CHANNELS_LAST = frozenset({"NHWC", "NDHWC"})
LEAST_GAIN = 1.15
"""Times as fast as the call that a kernel has to be by its bound, which hardly any reaches."""
SLACK_NS = 5_000
"""Nanoseconds that an operator's call may take longer in a network than by itself: it starts, and
finds other things in the caches. Short operators keep both makers by this."""


def share_of_peak(function: FusedFunction) -> float:
    """Share of a core's peak that no compiled kernel of a function exceeds."""
    last = any(
        call.attribute("data_layout") in CHANNELS_LAST and call.attribute("groups") == 1
        for call in function.calls
    )
    return CHANNELS_LAST_SHARE if last else SHARE


def least_ns(operator: Operator, share: float, speeds: LaneSpeeds, *, lanes: int) -> float:
    """Least nanoseconds of an operator's kernel on all lanes.

    Its operations at a share of the lanes' peak, or its bytes at their bandwidth, whichever takes
    longer.
    """
    computing_ns = operator.flops / (share * speeds.flops_per_ns)
    return max(computing_ns, speeds.moved_ns(operator.memory_bytes)) / lanes


def can_win(kernel_ns: float, library_ns: float) -> bool:
    """True if a kernel that takes at least ``kernel_ns`` may be worth more than a library's call.

    Both are nanoseconds on all lanes.
    """
    return LEAST_GAIN * kernel_ns < library_ns + SLACK_NS
