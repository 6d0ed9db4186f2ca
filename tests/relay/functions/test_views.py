from __future__ import annotations

import pytest
from tvm import relay

from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.relay.functions.stored_types import with_stored_types
from tvm_ios.relay.functions.views import view_of


def slice_of(nets, shape, **attributes):
    data = relay.var("data", shape=shape)
    function = nets.fused(relay.strided_slice(data, **attributes), data)
    return view_of(function, [relay.var("argument", shape=shape)])


def test_channels_of_one_image_are_a_piece_of_memory(nets):
    assert slice_of(nets, (1, 8, 4, 4), begin=[2], end=[6], axes=[1]) == SliceView(2 * 16 * 4)


def test_a_slice_given_on_every_axis(nets):
    view = slice_of(nets, (1, 8, 4, 4), begin=[0, 2, 0, 0], end=[1, 6, 4, 4])
    assert view == SliceView(2 * 16 * 4)


def test_a_slice_that_counts_from_the_end(nets):
    assert slice_of(nets, (1, 8, 4, 4), begin=[-2], end=[8], axes=[1]) == SliceView(6 * 16 * 4)


def test_blocks_of_channels(nets):
    assert slice_of(nets, (1, 4, 2, 2, 8), begin=[1], end=[3], axes=[1]) == SliceView(32 * 4)


def test_whole_images_of_a_batch(nets):
    assert slice_of(nets, (4, 8, 2, 2), begin=[1], end=[3], axes=[0]) == SliceView(32 * 4)


def test_a_slice_of_everything_is_the_input(nets):
    assert slice_of(nets, (4, 8), begin=[0], end=[4], axes=[0]) == SliceView(0)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 8, 4, 4), {"begin": [2], "end": [6], "axes": [1]}),
        ((1, 8, 4, 4), {"begin": [0], "end": [2], "axes": [2]}),
        ((1, 8, 4, 4), {"begin": [0, 0], "end": [4, 2], "strides": [1, 1], "axes": [1, 2]}),
        ((1, 8, 4, 4), {"begin": [0], "end": [8], "strides": [2], "axes": [1]}),
    ],
    ids=["channels of a batch", "rows", "channels and rows", "strided"],
)
def test_what_is_not_contiguous_is_no_view(nets, shape, attributes):
    assert slice_of(nets, shape, **attributes) is None


def concat_of(nets, shapes, axis, *, order=None, arguments=None):
    pieces = [relay.var(f"piece{i}", shape=shape) for i, shape in enumerate(shapes)]
    fields = pieces if order is None else [pieces[i] for i in order]
    function = nets.fused(relay.concatenate(fields, axis=axis), *pieces)
    given = arguments or [relay.var("argument", shape=shape) for shape in shapes]
    return view_of(function, given)


def test_channels_of_one_image_lie_one_after_another(nets):
    view = concat_of(nets, [(1, 2, 4, 4), (1, 3, 4, 4), (1, 1, 4, 4)], 1)
    assert view == ConcatView((0, 2 * 64, 5 * 64))


def test_a_negative_axis(nets):
    assert concat_of(nets, [(1, 2), (1, 3)], -1) == ConcatView((0, 8))


def test_batches_lie_one_after_another(nets):
    assert concat_of(nets, [(2, 3), (1, 3)], 0) == ConcatView((0, 24))


def test_channels_of_a_batch_do_not(nets):
    assert concat_of(nets, [(2, 2, 4, 4), (2, 3, 4, 4)], 1) is None


def test_pieces_in_another_order_than_the_parameters_are_no_view(nets):
    assert concat_of(nets, [(1, 2), (1, 3)], 1, order=[1, 0]) is None


def test_a_tensor_next_to_itself_is_no_view(nets):
    same = relay.var("same", shape=(1, 2))
    assert concat_of(nets, [(1, 2), (1, 2)], 1, arguments=[same, same]) is None


def test_a_constant_piece_is_no_view(nets):
    import numpy as np

    pieces = [relay.var("a", shape=(1, 2)), relay.const(np.zeros((1, 2), "float32"))]
    assert concat_of(nets, [(1, 2), (1, 2)], 1, arguments=pieces) is None


def test_a_reshape_is_its_input(nets):
    data = relay.var("data", shape=(2, 3))
    function = nets.fused(relay.reshape(data, (6,)), data, **{"relay.reshape_only": 1})
    assert view_of(function, [data]) == SliceView(0)


def test_work_after_a_slice_needs_a_kernel(nets):
    data = relay.var("data", shape=(1, 8))
    body = relay.tanh(relay.strided_slice(data, begin=[0], end=[4], axes=[1]))
    assert view_of(nets.fused(body, data), [data]) is None


def views_of(function, stored, *, rounds):
    low = with_stored_types(
        function, dict.fromkeys(stored, IN_BFLOAT16), IN_BFLOAT16 if rounds else None
    )
    return view_of(low, [relay.var("argument", parameter.checked_type) for parameter in low.params])


def test_places_in_bfloat16_are_half_as_many_bytes_away(nets):
    data = relay.var("data", shape=(1, 8, 4, 4))
    cut = nets.fused(relay.strided_slice(data, begin=[2], end=[6], axes=[1]), data)
    assert views_of(cut, [0], rounds=True) == SliceView(2 * 16 * 2)
    pieces = [relay.var(f"piece{i}", shape=(1, 3, 5)) for i in range(3)]
    joined = nets.fused(relay.concatenate(pieces, axis=1), *pieces)
    assert views_of(joined, [0, 1, 2], rounds=True) == ConcatView((0, 30, 60))
    flat = nets.fused(relay.reshape(data, (128,)), data, **{"relay.reshape_only": 1})
    assert views_of(flat, [0], rounds=True) == SliceView(0)


@pytest.mark.parametrize(("stored", "rounds"), [([0], False), ([], True), ([0, 1], False)])
def test_what_changes_the_type_is_no_view(nets, stored, rounds):
    pieces = [relay.var(f"piece{i}", shape=(1, 3)) for i in range(2)]
    joined = nets.fused(relay.concatenate(pieces, axis=1), *pieces)
    assert views_of(joined, stored, rounds=rounds) is None
