from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import op
from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType
from tvm_ios.cost.kernel_bound import CHANNELS_LAST_SHARE, SHARE, can_win, least_ns, share_of_peak
from tvm_ios.devices.traits import CPU

IMAGE = TensorType((1, 8, 8, 16), "float32")


def convolution(layout: str, groups: int) -> FusedFunction:
    attributes = (("data_layout", layout), ("groups", groups))
    call = PrimitiveCall(operator="nn.conv2d", operands=(0, 1), result=IMAGE, attributes=attributes)
    return FusedFunction(parameters=(IMAGE, IMAGE), calls=(call,))


@pytest.mark.parametrize(
    ("layout", "groups", "share"),
    [
        ("NCHW16c", 1, SHARE),
        ("NHWC", 1, CHANNELS_LAST_SHARE),
        ("NDHWC", 1, CHANNELS_LAST_SHARE),
        ("NHWC", 16, SHARE),  # loops of our own
    ],
)
def test_kernels_with_channels_last_are_far_from_the_peak(layout, groups, share):
    assert share_of_peak(convolution(layout, groups)) == share


def test_the_longer_of_computing_and_moving_bounds_a_kernel():
    operator = op("a", kind="conv2d", flops=1_000_000, memory_bytes=80_000)
    for cached_bytes_per_ns, bound_ns in ((10.0, 10_000), (2.0, 20_000)):
        speeds = replace(CPU.speeds, flops_per_ns=100.0, cached_bytes_per_ns=cached_bytes_per_ns)
        assert least_ns(operator, 0.5, speeds, lanes=2) == bound_ns


def test_a_kernel_has_to_be_able_to_gain_more_than_noise():
    """Near a long call, near a short one, far above a short one, and below a slow one."""
    pairs_ns = [(950_000, 1_000_000), (19_000, 20_000), (40_000, 20_000), (500_000, 1_000_000)]
    assert [can_win(*pair) for pair in pairs_ns] == [False, True, False, True]
