from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tvm_ios.relax.ir import call_name, main_of, operator_calls
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.transforms.moves import with_fewer_moves, with_whole_ranks


def calls(body, *shape: int) -> list[str]:
    mod = with_fewer_moves(Network(*shape).build(body))
    mod = relax.transform.DeadCodeElimination()(mod)
    return [call_name(each).removeprefix("relax.") for each in operator_calls(main_of(mod))]


@pytest.mark.parametrize(
    ("second", "left"),
    [([0, 3, 1, 2], []), ([0, 1, 3, 2], ["permute_dims"]), ([1, 0, 2, 3], ["permute_dims"])],
)
def test_transposes_of_transposes_are_one(second, left):
    def body(net):
        turned = net.emit(relax.op.permute_dims(net.x, [0, 2, 3, 1]))
        back = net.emit(relax.op.permute_dims(turned, second))
        return net.emit(relax.op.nn.relu(back))

    assert calls(body, 2, 3, 4, 5) == [*left, "nn.relu"]


def test_an_image_of_one_pixel_is_reshaped_once():
    def body(net):
        turned = net.emit(relax.op.permute_dims(net.x, [0, 3, 1, 2]))
        return net.emit(relax.op.reshape(turned, (1, 6)))

    assert calls(body, 1, 1, 1, 6) == ["reshape"]
    assert calls(body, 1, 1, 2, 3) == ["permute_dims", "reshape"]


def test_constants_have_all_axes_of_the_images_that_they_are_broadcast_to():
    def body(net):
        scaled = net.emit(relax.op.multiply(net.x, net.constant(4, 1, 1)))
        product = net.emit(relax.op.matmul(scaled, net.constant(6, 3)))
        return net.emit(relax.op.add(product, relax.const(1.0, "float32")))

    mod = with_whole_ranks(Network(2, 4, 5, 6).build(body))
    shapes = [tuple(each.args[1].value.shape) for each in operator_calls(main_of(mod))]
    assert shapes == [(1, 4, 1, 1), (6, 3), ()]


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [[16], [16, 32, 48]])
def test_images_in_blocks_are_split_into_equal_pieces(pieces):
    """TVM takes indices of channels for those of blocks."""
    network = Network(1, 8, 5, 5)

    def body(net):
        wide = net.emit(relax.op.nn.relu(net.conv(net.x, 16 * (len(pieces) + 1), 3)))
        parts = net.emit(relax.op.split(wide, pieces, 1))
        first, last = (net.emit(relax.TupleGetItem(parts, at)) for at in (0, len(pieces)))
        return net.emit(relax.op.add(net.conv(first, 16, 1), net.conv(last, 16, 3)))

    mod = network.build(body)
    prepared = prepare(mod, None, TARGET, image_layout="NCHW16c").module
    assert "(T.int64(1), T.int64(1), T.int64(5), T.int64(5), T.int64(16))" in prepared.script()
    (found,), (expected,) = (answers(each, network.value()) for each in (prepared, mod))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
