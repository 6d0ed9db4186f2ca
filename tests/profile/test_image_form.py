"""Forms by prices, which a library says here without any measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.devices.traits import CPU
from tvm_ios.errors import OutOfTimeError
from tvm_ios.profile.image_form import cheapest_form
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.transforms.bound_model import bound_model
from tvm_ios.support.time_budget import TimeBudget

TARGET = resolve_target("llvm -mcpu=skylake-avx512")


@dataclass
class FakeLibrary:
    """Library that computes any function, and its own device; a price of 0 is a refusal."""

    price_ns: Callable[[FusedFunction], int]

    def match(self, function: FusedFunction) -> FusedFunction:
        return function

    def complete(self, calls):
        return {call: call if self.price_ns(call) else None for call in calls}

    def found_ns(self, call):
        return self.price_ns(call)


def fake_call(budget: TimeBudget | None) -> SimpleNamespace:
    @contextmanager
    def opened() -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(libraries=lambda _: SimpleNamespace(open=lambda each: each))

    return SimpleNamespace(
        open=opened,
        database=None,
        lanes=2,
        device=SimpleNamespace(speeds=CPU.speeds),
        budget=budget or TimeBudget(),
    )


def form_by(
    price_ns: Callable[[FusedFunction], int],
    body: relay.Expr,
    budget: TimeBudget | None = None,
    **more,
) -> ImageForm | None:
    module = typed(body)
    params = {
        each.name_hint: np.ones([int(n) for n in each.checked_type.shape], "float32")
        for each in module["main"].params
        if each.name_hint != "x"
    }
    library = FakeLibrary(price_ns)
    return cheapest_form(bound_model(module, params), TARGET, library, fake_call(budget), **more)


def chain(channels: int = 32) -> relay.Expr:
    """A convolution of 3x3, and one of 1x1 behind it."""
    value = relay.var("x", shape=(1, channels, 14, 14))
    for name, size in (("a", 3), ("b", 1)):
        weight = relay.var(name, shape=(channels, channels, size, size))
        value = relay.nn.relu(
            relay.nn.conv2d(
                value, weight, channels=channels, kernel_size=(size, size), padding=size // 2
            )
        )
    return value


def layout_in(function: FusedFunction) -> str:
    return str(function.calls[0].attribute("out_layout"))


def wide(function: FusedFunction) -> bool:
    return function.parameters[1].shape[-1] > 1


def test_each_convolution_gets_its_cheaper_layout():
    """Wide kernels last and others in blocks, where the move between them costs less."""

    def price_ns(function: FusedFunction) -> int:
        return 1_000 if wide(function) == (layout_in(function) == CHANNELS_LAST) else 10_000

    assert form_by(price_ns, chain()) == ImageForm(layouts=(CHANNELS_LAST, BLOCKS))


def test_a_gain_below_the_price_of_a_move_does_not_count():
    def price_ns(function: FusedFunction) -> int:
        return 1_000 if wide(function) == (layout_in(function) == CHANNELS_LAST) else 1_100

    assert len({*form_by(price_ns, chain()).layouts}) == 1


def test_what_a_library_refuses_with_channels_last_is_in_blocks_of_tvm():
    def price_ns(function: FusedFunction) -> int:
        return 0 if layout_in(function) == CHANNELS_LAST else 5_000

    assert form_by(price_ns, chain()).layouts == (BLOCKS, BLOCKS)
    assert form_by(lambda _: 0, chain()).layouts == (BLOCKS, BLOCKS)


def test_channels_that_may_not_be_padded_lie_last():
    """Unless the guess of TVM's own kernels is below the library's price."""
    assert form_by(lambda _: 1_000, chain(20), pads=False).layouts == (CHANNELS_LAST,) * 2
    assert form_by(lambda _: 10**9, chain(20), pads=False).layouts == (BLOCKS,) * 2


def test_channels_that_fill_no_block_lie_last_where_they_are_cut():
    """Out of their blocks and back costs more than a copy."""

    def cut(channels: int) -> relay.Expr:
        return relay.split(chain(96), [channels], axis=1)[0]

    def price_ns(function: FusedFunction) -> int:
        return 100_000 if layout_in(function) == CHANNELS_LAST else 99_000

    assert form_by(price_ns, cut(44)).layouts == (CHANNELS_LAST,) * 2
    assert form_by(price_ns, cut(48)).layouts == (BLOCKS,) * 2


def grouped(groups: int, dilation: int = 1) -> relay.Expr:
    data, weight = (
        relay.var(name, shape=shape)
        for name, shape in (("x", (1, 48, 56, 56)), ("w", (48, 48 // groups, 3, 3)))
    )
    named = {"channels": 48, "kernel_size": (3, 3), "dilation": dilation}
    return relay.nn.conv2d(data, weight, **named, groups=groups)


def test_groups_lie_last_where_loops_of_ours_are_compiled_for_them():
    assert form_by(lambda _: 0, grouped(6)).layouts == (CHANNELS_LAST,)
    assert form_by(lambda _: 0, grouped(8)).layouts == (BLOCKS,)
    assert form_by(lambda _: 10**9, grouped(48, dilation=2)).layouts == (CHANNELS_LAST,)


def test_groups_leave_their_blocks_which_has_a_price():
    """TVM computes several channels a group in NCHW only, so that is what a library is asked."""

    def gains_ns(gain_ns: int) -> Callable[[FusedFunction], int]:
        prices_ns = {CHANNELS_LAST: 1_000_000, "NCHW": 1_000_000 - gain_ns}
        return lambda function: prices_ns[layout_in(function)]

    assert form_by(gains_ns(2_000), grouped(8)).layouts == (CHANNELS_LAST,)
    assert form_by(gains_ns(900_000), grouped(8)).layouts == (BLOCKS,)


def test_groups_are_priced_in_the_precision_of_the_call():
    def price_ns(function: FusedFunction) -> int:
        is_low = {function.rounded_to, *function.stored} == {IN_BFLOAT16}
        return 100_000 if is_low == (layout_in(function) == CHANNELS_LAST) else 5_000_000

    low = Precision(dtype="bfloat16")
    assert form_by(price_ns, grouped(8)).layouts == (BLOCKS,)
    assert form_by(price_ns, grouped(8), precision=low).layouts == (CHANNELS_LAST,)
    assert form_by(price_ns, chain(), precision=low).layouts == (BLOCKS,) * 2


def transposed() -> relay.Expr:
    data, weight = relay.var("x", shape=(1, 16, 8, 8)), relay.var("w", shape=(16, 16, 2, 2))
    return relay.nn.conv2d_transpose(data, weight, channels=16, kernel_size=(2, 2), strides=(2, 2))


def test_a_transposed_convolution_is_written_anew_where_that_costs_less():
    def slow_whole_ns(function: FusedFunction) -> int:
        return 90_000 if "transpose" in function.calls[0].operator else 1_000

    assert form_by(slow_whole_ns, transposed()).written == (0,)
    assert form_by(lambda _: 1_000, transposed()).written == ()

    def refused_whole(function: FusedFunction) -> int:
        return 0 if "transpose" in function.calls[0].operator else 1_000

    assert form_by(refused_whole, transposed()).written == (0,)


def test_half_of_a_budget_may_go_by_while_layouts_are_timed():
    now_s = [0.0]

    def price_ns(_: FusedFunction) -> int:
        now_s[0] += 1.0
        return 1000

    assert form_by(price_ns, chain(), TimeBudget(60, clock_s=lambda: now_s[0])) is not None
    body = chain()
    for _ in range(4):
        weight = relay.var(f"w{_}", shape=(32, 32, 3, 3))
        body = relay.nn.relu(relay.nn.conv2d(body, weight, channels=32, kernel_size=(3, 3)))
    with pytest.raises(OutOfTimeError, match="no time left to time layouts"):
        form_by(price_ns, body, TimeBudget(10, clock_s=lambda: now_s[0]))


def test_a_model_without_convolutions_has_no_form():
    x = relay.var("x", shape=(4, 8))
    assert form_by(lambda _: 1, relay.nn.dense(x, relay.var("w", shape=(8, 8)))) is None
