"""Depthwise and grouped convolutions by loops of our own, beside NumPy in double precision."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import autotvm, relay

from tests.relay.row_kernels.norm_cases import typed
from tests.relay.schedules.kernel import TARGET, lower, run
from tests.relay_graphs.arithmetic import convolution, erf
from tvm_ios.relay.grouped.kernel import grouped_kernel
from tvm_ios.support.exact_bits import exact_bits

Reference = Callable[..., np.ndarray]
DEPTHWISE = [
    {"channels": 16, "size": (9, 30)},
    {"channels": 12, "size": (5, 17)},
    {"channels": 44, "size": (6, 7), "kernel": (5, 5)},
    {"channels": 154, "size": (4, 5), "kernel": (9, 9)},
    {"channels": 6, "size": (7, 1), "batch": 2},
    {"channels": 24, "size": (11, 8), "strides": (2, 2)},
    {"channels": 20, "size": (8, 33), "kernel": (11, 3), "strides": (1, 2)},
    {"channels": 17, "size": (10, 12), "dilation": (3, 2)},
    {"channels": 32, "size": (2, 2), "kernel": (7, 7), "dilation": (2, 2)},
    {"channels": 8, "size": (6, 40), "padding": (0, 0, 0, 0)},
    {"channels": 8, "size": (5, 6), "padding": (0, 3, 2, 1)},
    {"channels": 16, "size": (4, 3), "padding": (9, 9, 9, 9)},
]
GROUPED = [
    {"channels": 16, "size": (5, 18), "groups": 4},
    {"channels": 20, "size": (4, 6), "groups": 5},
    {"channels": 40, "size": (5, 7), "groups": 5, "strides": (2, 2)},
    {"channels": 48, "size": (6, 5), "groups": 2},
    {"channels": 48, "size": (3, 15), "groups": 3, "kernel": (1, 3)},
    {"channels": 64, "size": (4, 4), "groups": 2, "dilation": (2, 2), "batch": 2},
    {"channels": 12, "size": (5, 5), "groups": 12, "outputs": 24},
    {"channels": 12, "size": (5, 5), "groups": 12, "outputs": 24, "hwoi": False},
    {"channels": 24, "size": (5, 5), "groups": 12, "outputs": 12},
    {"channels": 24, "size": (5, 5), "groups": 3, "outputs": 48},
    {"channels": 4, "size": (3, 3), "groups": 2, "outputs": 24},
]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


class Case:
    """Grouped convolution in NHWC, or a depthwise one in blocks of channels."""

    def __init__(
        self,
        channels: int,
        size: tuple[int, int],
        *,
        kernel: tuple[int, int] = (3, 3),
        groups: int | None = None,
        outputs: int | None = None,
        batch: int = 1,
        block: int = 0,
        hwoi: bool = True,
        padding: tuple[int, ...] | None = None,
        **attributes: Any,
    ) -> None:
        self.groups = groups or channels
        self.outputs = outputs or channels
        self.block = block
        self.hwoi = hwoi
        dilation = attributes.setdefault("dilation", (1, 1))
        attributes.setdefault("strides", (1, 1))
        around = [step * (extent - 1) // 2 for step, extent in zip(dilation, kernel, strict=True)]
        self.attributes = attributes | {"padding": padding or (*around, *around)}
        self.data = random(batch, channels, *size)
        self.weight = random(self.outputs, channels // self.groups, *kernel)

    def laid_out(self, image: np.ndarray) -> np.ndarray:
        """An image of NCHW in the layout of the case."""
        if not self.block:
            return np.ascontiguousarray(image.transpose(0, 2, 3, 1))
        batch, channels, *size = image.shape
        blocks = image.reshape(batch, channels // self.block, self.block, *size)
        return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2))

    @property
    def arrays(self) -> list[np.ndarray]:
        """Data and weights."""
        if self.block:
            blocks = self.weight.reshape(-1, self.block, 1, *self.weight.shape[2:])
            return [self.laid_out(self.data), blocks.transpose(0, 2, 3, 4, 1)[:, :, :, :, None]]
        order = (2, 3, 0, 1) if self.weight.shape[1] == 1 and self.is_hwoi else (2, 3, 1, 0)
        weight = self.weight.transpose(order)
        if self.is_hwoi:
            kernel = self.weight.shape[2:]
            weight = weight.reshape(*kernel, self.groups, self.outputs // self.groups)
        return [self.laid_out(self.data), np.ascontiguousarray(weight)]

    @property
    def is_hwoi(self) -> bool:
        """True if TVM calls the convolution a depthwise one."""
        return self.groups == self.data.shape[1] and self.hwoi

    @property
    def expression(self) -> relay.Expr:
        """The convolution in Relay."""
        data, weight = (
            relay.var(name, shape=array.shape)
            for name, array in zip("xw", self.arrays, strict=True)
        )
        named = {"channels": self.outputs, "kernel_size": self.weight.shape[2:]}
        named |= {"groups": self.groups, **self.attributes}
        if self.block:
            layout = f"NCHW{self.block}c"
            kernel_layout = f"OIHW1i{self.block}o"
            return relay.nn.contrib_depthwise_conv2d_nchwc(
                data, weight, **named, data_layout=layout, kernel_layout=kernel_layout
            )
        kernel_layout = "HWOI" if self.is_hwoi else "HWIO"
        return relay.nn.conv2d(
            data, weight, **named, data_layout="NHWC", kernel_layout=kernel_layout
        )

    @property
    def expected(self) -> np.ndarray:
        """The result in the layout of the case, in double precision."""
        top, left, bottom, right = self.attributes["padding"]
        padded = np.pad(self.data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
        made = convolution(
            padded,
            self.weight.astype("float64"),
            self.attributes["strides"],
            (0, 0, 0, 0),
            self.attributes["dilation"],
            self.groups,
        )
        return self.laid_out(made)


def assert_right(
    case: Case,
    after: Callable[[relay.Expr], relay.Expr] = lambda value: value,
    reference: Reference = lambda value: value,
    more: tuple[np.ndarray, ...] = (),
) -> None:
    value = after(case.expression)
    assert grouped_kernel(typed(value), TARGET) is not None
    made = run(lower(value), [*case.arrays, *more])
    expected = reference(case.expected, *more)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", DEPTHWISE, ids=str)
def test_depthwise_convolutions_of_any_shape(shape: dict[str, Any]) -> None:
    assert_right(Case(**shape))


@pytest.mark.parametrize("shape", GROUPED, ids=str)
def test_grouped_convolutions_of_any_shape(shape: dict[str, Any]) -> None:
    assert_right(Case(**shape))


@pytest.mark.parametrize(
    "shape",
    [
        {"channels": 16, "size": (19, 15), "block": 16},
        {"channels": 22, "size": (9, 7), "block": 11, "batch": 2},
        {"channels": 24, "size": (9, 30), "block": 8, "strides": (2, 2)},
        {"channels": 24, "size": (5, 5), "block": 12, "dilation": (2, 1)},
    ],
    ids=str,
)
def test_blocks_of_channels_of_any_size(shape: dict[str, Any]) -> None:
    assert_right(Case(**shape))


@pytest.mark.parametrize("shape", [DEPTHWISE[1], GROUPED[2]], ids=str)
def test_what_follows_is_one_kernel(shape: dict[str, Any]) -> None:
    case = Case(**shape)
    added = random(*case.expected.shape)
    bias = random(case.outputs)

    def after(value: relay.Expr) -> relay.Expr:
        first = relay.nn.bias_add(value, relay.var("b", shape=bias.shape), axis=3)
        return relay.nn.relu(first + relay.var("y", shape=added.shape))

    def reference(value: np.ndarray, bias: np.ndarray, added: np.ndarray) -> np.ndarray:
        return np.maximum(value + bias + added, 0)

    assert_right(case, after, reference, (bias, added))


@pytest.mark.slow(1)
def test_images_beyond_the_second_cache_are_fetched_row_by_row() -> None:
    case = Case(channels=80, size=(60, 41), strides=(2, 1))
    assert "prefetch" in str(lower(case.expression).function)
    assert_right(case)


def test_functions_that_take_long_follow() -> None:
    def gelu(value: relay.Expr) -> relay.Expr:
        half, one = relay.const(0.5), relay.const(1.0)
        return value * half * (relay.erf(value * relay.const(0.5**0.5)) + one)

    assert_right(Case(**DEPTHWISE[0]), gelu, lambda x: x * 0.5 * (erf(x * 0.5**0.5) + 1))
    block = {"channels": 16, "size": (5, 9), "block": 8}
    assert_right(Case(**block), relay.sigmoid, lambda x: 1 / (1 + np.exp(-x)))


def test_not_a_number_stays_where_it_is_read() -> None:
    case = Case(channels=8, size=(7, 9))
    case.data[0, 3, 2, 4] = np.nan
    made = run(lower(case.expression), case.arrays)
    assert sorted(zip(*np.nonzero(np.isnan(made)), strict=True)) == [
        (0, row, column, 3) for row in (1, 2, 3) for column in (3, 4, 5)
    ]


@pytest.mark.parametrize(
    "shape",
    [
        {"channels": 16, "size": (5, 5), "groups": 1},
        {"channels": 3, "size": (5, 5)},
        {"channels": 12, "size": (5, 5), "groups": 2},
    ],
    ids=["one group", "three channels", "groups of six"],
)
def test_other_convolutions_stay_with_tvm(shape: dict[str, Any]) -> None:
    assert grouped_kernel(typed(Case(**shape).expression), TARGET) is None


def test_what_reads_the_convolution_elsewhere_stays_with_tvm() -> None:
    value = relay.reverse(Case(channels=8, size=(5, 5)).expression, axis=1)
    assert grouped_kernel(typed(value), TARGET) is None


def test_bits_of_stock_tvm_are_tvms() -> None:
    value = Case(channels=16, size=(5, 5)).expression
    with exact_bits(True):
        stock = lower(value).function
    assert not tvm.ir.structural_equal(lower(value).function, stock)


class _Recorded(autotvm.task.DispatchContext):
    """Context that answers as if TVM's defaults were records."""

    def query(self, target: tvm.target.Target, workload: Any) -> Any:
        config = copy.copy(self._old_ctx.query(target, workload))
        config.is_fallback = False
        return config

    def update(self, target: tvm.target.Target, workload: Any, cfg: Any) -> None:
        self._old_ctx.update(target, workload, cfg)


@pytest.mark.parametrize(("context", "is_ours"), [(_Recorded, False), (nullcontext, True)])
def test_kernels_with_a_tuning_record_are_tvms(context: Callable[..., Any], is_ours: bool) -> None:
    value = Case(channels=16, size=(5, 5), block=16).expression
    with context():
        assert ("sum0" in str(lower(value).function)) == is_ours
