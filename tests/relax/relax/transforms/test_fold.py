from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import Network
from tvm_ios.relax.ir import call_name, main_of, operator_calls
from tvm_ios.relax.transforms.fold import fold_constants


def folded(mod, how):
    """Module after a pass, without bindings that nothing reads."""
    steps = [how, relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
    return tvm.transform.Sequential(steps)(mod)


def test_weights_and_norms_are_the_constants_that_tvm_computes():
    def body(net):
        weight, scale = net.constant(4, 6, 3, 3), relax.const(np.linspace(1, 2, 4, dtype="float32"))
        root = net.emit(relax.op.sqrt(net.emit(relax.op.add(scale, relax.const(1e-5, "float32")))))
        factor = net.emit(relax.op.divide(scale, root))
        factor = net.emit(relax.op.expand_dims(factor, [1, 2, 3]))
        scaled = net.emit(relax.op.multiply(weight, factor))
        turned = net.emit(relax.op.permute_dims(scaled, [2, 3, 1, 0]))
        data = net.emit(relax.op.permute_dims(net.x, [0, 2, 3, 1]))
        options = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        return net.emit(relax.op.nn.conv2d(data, turned, **options))

    mod = Network(1, 6, 5, 5).build(body)
    ours, theirs = (folded(mod, each) for each in (fold_constants, relax.transform.FoldConstant()))
    tvm.ir.assert_structural_equal(ours, theirs)
    assert len(operator_calls(main_of(ours))) == 2


BLOCKS = {
    "images": ((2, 8, 3, 5), lambda n, c, h, w: (n, c // 4, h, w, c % 4)),
    "weights": ((8, 4, 3, 3), lambda o, i, h, w: (o // 4, i // 2, h, w, i % 2, o % 4)),
    "depthwise weights": ((8, 1, 3, 3), lambda o, i, h, w: (o // 4, i, h, w, o % 4)),
    "one element": ((1, 1), lambda i, j: (j, tvm.tirx.const(0, "int64"), i)),
}
OTHERS = {
    "blocks in blocks": ((12,), lambda i: (i // 6, i // 3 % 2, i % 3)),
    "one axis of two": ((2, 3), lambda i, j: (i * 3 + j,)),
    "padded blocks": ((6,), lambda i: (i // 4, i % 4)),
}


@pytest.mark.parametrize("name", [*BLOCKS, *OTHERS])
def test_blocks_are_the_constants_that_tvm_computes(name, monkeypatch):
    shape, order = (BLOCKS | OTHERS)[name]

    def body(net):
        padding = 0.0 if name == "padded blocks" else None
        moved = net.emit(relax.op.layout_transform(net.constant(*shape), order, pad_value=padding))
        return net.emit(relax.op.concat([net.x, net.emit(relax.op.reshape(moved, [-1]))], axis=0))

    mod = Network(3).build(body)
    theirs = folded(mod, relax.transform.FoldConstant())
    tvm.ir.assert_structural_equal(folded(mod, fold_constants), theirs)
    if name in BLOCKS:
        monkeypatch.setattr(relax.transform, "FoldConstant", None)
        tvm.ir.assert_structural_equal(folded(mod, fold_constants), theirs)


def test_what_numpy_may_round_otherwise_is_computed_by_tvm():
    def body(net):
        return net.emit(relax.op.add(net.x, net.emit(relax.op.exp(net.constant(4)))))

    mod = folded(Network(3, 4).build(body), fold_constants)
    assert [call_name(each) for each in operator_calls(main_of(mod))] == ["relax.add"]
    tvm.ir.assert_structural_equal(mod, folded(mod, relax.transform.FoldConstant()))


def test_only_operators_on_constants_are_lowered_to_be_computed(capfd):
    """Of tuples, too, as TVM does; it would warn of cubes that it lowers."""

    def body(net):
        pieces = net.emit(relax.op.split(net.constant(4), 2))
        kept = net.emit(relax.op.exp(net.constant(2)))
        cubes = net.emit(relax.op.power(net.x, relax.const(3.0)))
        product = net.emit(relax.op.multiply(cubes, kept))
        return net.emit(relax.op.add(product, net.emit(relax.TupleGetItem(pieces, 1))))

    mod = folded(Network(3, 2).build(body), fold_constants)
    assert "Warning" not in capfd.readouterr().err
    assert len(operator_calls(main_of(mod))) == 3
    tvm.ir.assert_structural_equal(
        mod, folded(Network(3, 2).build(body), relax.transform.FoldConstant())
    )
