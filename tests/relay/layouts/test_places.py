"""Places of images: what follows which convolution, and what would have to be moved."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import typed
from tvm_ios.core.image_layouts import ImagePlaces
from tvm_ios.relay.layouts.places import image_places

MAP_BYTES = 16 * 8 * 8 * 4


def convolved(value: relay.Expr, name: str, channels: int = 16, **more: int) -> relay.Expr:
    more = {"kernel_size": (3, 3), "padding": (1, 1), "channels": channels} | more
    return relay.nn.conv2d(value, relay.var(name), **more)


def places_of(body: relay.Expr) -> ImagePlaces:
    return image_places(typed(body), 16)


def image() -> relay.Var:
    return relay.var("x", shape=(1, 16, 8, 8))


def test_what_follows_a_convolution_is_at_its_place_and_moves_nothing():
    value = relay.nn.max_pool2d(relay.nn.relu(convolved(image(), "a")), (2, 2), strides=(2, 2))
    found = places_of(convolved(value, "b"))
    assert len(found.convolutions) == 2
    assert found.moved_bytes == {(0, 1): MAP_BYTES // 4}
    assert found.copied_bytes == [0, 0]


def test_a_sum_is_at_the_place_of_the_first_of_equal_images():
    x = image()
    found = places_of(relay.nn.relu(convolved(x, "a") + convolved(x, "b")))
    assert found.moved_bytes == {(1, 0): MAP_BYTES}
    assert not found.joined_bytes


def test_what_is_scaled_goes_to_the_layout_of_a_gate_that_comes_first():
    """As TVM has it; so a gate gets the layout of what it scales."""
    value = convolved(image(), "a")
    gate = convolved(relay.nn.global_avg_pool2d(value), "b", kernel_size=(1, 1), padding=0)
    found = places_of(relay.multiply(relay.sigmoid(gate), value))
    assert found.moved_bytes == {(0, 1): 16 * 4 + MAP_BYTES}


def test_channels_that_are_joined_or_cut_are_copied_where_they_lie_last():
    x = image()
    joined = relay.concatenate([convolved(x, "a"), convolved(x, "b")], axis=1)
    halves = relay.split(joined, 2, axis=1)
    found = places_of(convolved(relay.nn.relu(halves[0]) * halves[1], "c"))
    assert found.copied_bytes == [4 * MAP_BYTES, 0, 0]
    assert found.unblocked_bytes == [0, 0, 0]
    assert found.moved_bytes == {(1, 0): MAP_BYTES, (0, 2): MAP_BYTES}
    assert found.joined_bytes == {(1, 0): 2 * MAP_BYTES}


def test_channels_that_fill_no_block_leave_their_blocks_where_they_are_joined_or_cut():
    x = image()
    joined = relay.concatenate([convolved(x, "a", 24), convolved(x, "b", 8)], axis=1)
    assert places_of(joined).unblocked_bytes == [2 * MAP_BYTES, 0]
    parts = relay.split(convolved(x, "a", 32), [12], axis=1)
    assert places_of(relay.nn.relu(parts[0])).unblocked_bytes == [2 * MAP_BYTES]


def test_rows_that_are_joined_are_copied_in_either_layout():
    x = image()
    found = places_of(relay.concatenate([convolved(x, "a"), convolved(x, "b")], axis=2))
    assert found.copied_bytes == [0, 0]


def test_axes_that_are_plain_end_a_place():
    value = relay.transpose(convolved(image(), "a"), (0, 1, 3, 2))
    found = places_of(convolved(value, "b"))
    assert len(found.convolutions) == 2
    assert not found.moved_bytes


def test_a_model_without_images_has_no_places():
    x = relay.var("x", shape=(2, 4))
    assert places_of(relay.nn.dense(x, relay.var("w", shape=(3, 4)))).convolutions == []
