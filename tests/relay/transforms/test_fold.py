from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.relay.transforms.fold import fold_exactly, transform_layout

MOVES = {
    "layout_transform": lambda value: relay.layout_transform(value, "OIHW", "OIHW2i4o"),
    "layout_transform back": lambda value: relay.layout_transform(
        relay.layout_transform(value, "OIHW", "OIHW4o"), "OIHW4o", "HWIO"
    ),
    "layout_transform between blocks": lambda value: relay.layout_transform(
        relay.layout_transform(value, "NCHW", "NCHW4c"), "NCHW4c", "NCHW2c"
    ),
    "layout_transform of axes": lambda value: relay.layout_transform(value, "NCHW", "NHWC"),
    "reshape": lambda value: relay.reshape(value, (-1, 6)),
    "expand_dims": lambda value: relay.expand_dims(value, axis=1, num_newaxis=2),
    "squeeze": lambda value: relay.squeeze(relay.expand_dims(value, axis=0), axis=[0]),
    "transpose": lambda value: relay.transpose(value, (2, 0, -1, 1)),
    "reversed": relay.transpose,
    "a chain": lambda value: relay.layout_transform(
        relay.reshape(relay.transpose(value), (8, 4, 3, 3)), "OIHW", "OIHW4i8o"
    ),
}


def typed(body):
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([], body)))


def drawn(dtype, shape=(8, 4, 3, 3)):
    """Any bits there are; as floating-point numbers also infinities and not-a-numbers."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.random.default_rng(0).bytes(size), dtype, shape


def test_casts_are_those_of_tvm():
    """Every float16, and what lies in the middle of two of them, also beyond the largest."""
    halves = np.arange(2**16, dtype="uint16").view("float16").astype("float32")
    halves = halves[~np.isnan(halves)]
    middles = ((halves[:-1].astype("float64") + halves[1:]) / 2).astype("float32")
    bits = np.frombuffer(np.random.default_rng(0).bytes(40000), "float32")
    value = np.concatenate([halves, middles[~np.isnan(middles)], bits[~np.isnan(bits)]])
    module = typed(relay.cast(relay.const(value), "float16"))
    folded = fold_exactly(module)
    assert operators(folded) == []
    expected = relay.transform.FoldConstant()(module)
    (ours,), (theirs,) = constants(folded), constants(expected)
    np.testing.assert_array_equal(ours.view("uint16"), theirs.view("uint16"))


def test_arithmetic_of_normal_numbers_is_that_of_tvm():
    """A batch norm's constants, as ``SimplifyInference`` has them, of sizes far apart."""
    generator = np.random.default_rng(0)
    scale, shift, mean = (generator.lognormal(0, 8, 4096).astype("float32") for _ in range(3))
    spread = generator.lognormal(0, 8, 4096).astype("float32")
    norm = relay.const(scale) * (
        relay.const(1.0) / relay.sqrt(relay.const(spread) + relay.const(1e-5))
    )
    offset = relay.expand_dims(relay.negative(relay.const(mean)) * norm + relay.const(shift), 1)
    module = typed(relay.Tuple([norm, offset - relay.const(np.ones((1, 2), "float32"))]))
    folded = fold_exactly(module)
    assert operators(folded) == []
    for ours, theirs in zip(
        constants(folded), constants(relay.transform.FoldConstant()(module)), strict=True
    ):
        np.testing.assert_array_equal(ours.view("uint32"), theirs.view("uint32"))


@pytest.mark.parametrize("given", [1e38, -1e-20, np.nan, np.inf])
def test_arithmetic_that_leaves_the_normal_numbers_is_left_to_tvm(given):
    value = relay.const(np.full(3, given, "float32"))
    assert operators(fold_exactly(typed(value * value))) == ["multiply"]
    assert operators(
        fold_exactly(typed(relay.const(np.ones(3, "int32")) + relay.const(1, "int32")))
    )


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.ones(3, "float32"), "int8"),
        (np.ones(3, "int64"), "float16"),
        (np.full(3, np.nan, "float32"), "float16"),
    ],
)
def test_other_casts_are_left_to_tvm(value, dtype):
    module = typed(relay.cast(relay.const(value), dtype))
    assert fold_exactly(module).same_as(module)


def constants(module):
    found = []

    def visit(expression):
        if isinstance(expression, relay.Constant):
            found.append(expression.data.numpy())

    relay.analysis.post_order_visit(module["main"], visit)
    return found


def operators(module):
    names = []

    def visit(expression):
        if isinstance(expression, relay.Call):
            names.append(expression.op.name)

    relay.analysis.post_order_visit(module["main"], visit)
    return names


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("move", MOVES)
def test_the_constants_are_those_of_tvm_bit_by_bit(move, dtype):
    raw, dtype, shape = drawn(dtype)
    value = relay.Constant(tvm.nd.array(np.frombuffer(raw, dtype).reshape(shape)))
    module = typed(MOVES[move](value))
    ours = fold_exactly(module)
    assert isinstance(ours["main"].body, relay.Constant)
    tvms = relay.transform.FoldConstant()(module)
    [actual], [expected] = constants(ours), constants(tvms)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()


def test_only_what_moves_constants_is_folded():
    weight = relay.const(np.arange(6, dtype="float32").reshape(2, 3))
    data = relay.var("data", shape=(3, 2))
    body = relay.add(relay.transpose(data), relay.tanh(relay.reshape(weight, (2, 3))))
    function = relay.Function([data], body)
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    folded = fold_exactly(module)
    assert operators(folded) == ["transpose", "tanh", "add"]
    assert len(folded["main"].params) == 1
    assert operators(module) == ["transpose", "reshape", "tanh", "add"]


def test_a_module_with_nothing_to_fold_is_left_alone():
    data = relay.var("data", shape=(3, 2))
    function = relay.Function([data], relay.transpose(data))
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    assert fold_exactly(module).same_as(module)


def test_a_constant_that_is_moved_for_two_readers_stays_one():
    weight = relay.expand_dims(relay.const(np.ones(3, "float32")), axis=0)
    folded = fold_exactly(typed(relay.Tuple([weight, relay.tanh(weight)])))
    left, right = folded["main"].body.fields
    assert left.same_as(right.args[0])


def test_scalars_and_what_tvm_pads_are_left_to_tvm():
    scalar = relay.reshape(relay.const(np.ones(1, "float32")), ())
    assert operators(fold_exactly(typed(scalar))) == ["reshape"]
    uneven = relay.layout_transform(relay.const(np.ones((1, 3, 2, 2), "float32")), "NCHW", "NCHW2c")
    assert operators(fold_exactly(typed(uneven))) == ["layout_transform"]


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("NCHW", "NCHW3c"),
        ("NCHW", "NCH"),
        ("NCH", "NCHW"),
        ("NCHW", "NCHW4d"),
        ("NCHW", "NCHWc"),
        ("NCHW", "NNHW"),
        ("NCHW", "NCHW2x"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(source, destination):
    assert transform_layout(np.zeros((1, 4, 2, 2)), source, destination) is None


def test_a_block_of_another_size_is_refused():
    assert transform_layout(np.zeros((1, 2, 2, 2, 4)), "NCHW2c", "NCHW") is None
