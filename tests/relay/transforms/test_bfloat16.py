"""Values of prepared models that become bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.bfloat16 import nearest
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.relay.extract import extract
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values, rounded_constant

TARGET = "llvm -mcpu=core-avx2"
SIDE = 8


def data(name="x", rows=2, dtype="float32"):
    return relay.var(name, shape=(rows, SIDE), dtype=dtype)


def weights(columns=SIDE, depth=SIDE, dtype="float32"):
    values = np.random.default_rng(columns).standard_normal((columns, depth))
    return relay.const(values.astype(dtype))


def product(value, columns=SIDE, depth=SIDE):
    return relay.nn.dense(value, weights(columns, depth))


def prepared(expression):
    return prepare(tvm.IRModule.from_expr(expression), None, TARGET)


def in_low(model, low=None):
    """The model in bfloat16, and the types of its operators' results."""
    low = low_values(model.extraction).most() if low is None else low
    made = with_low_precision(model, low)
    return made, [str(call.checked_type.dtype) for call in made.extraction.calls]


def chosen(expression, kept=()):
    """Kinds of all operators, of those whose results are bfloat16, and whose weights are."""
    extraction = prepared(expression).extraction
    kinds = [operator.kind for operator in extraction.graph.operators]
    low = low_values(extraction).most(kept)
    results, weights = ([kinds[index] for index in found] for found in (low.results, low.weights))
    return kinds, results, weights


def test_what_lies_between_products_is_rounded_and_the_end_is_not():
    body = product(relay.nn.softmax(product(relay.tanh(product(data())))))
    kinds, results, weighty = chosen(relay.sum(body, axis=1))
    assert kinds == ["dense", "dense", "softmax", "dense", "sum"]
    assert results == ["dense", "dense", "softmax"]
    assert weighty == ["dense"] * 3


def test_results_of_the_model_are_float32_also_where_products_read_them():
    first = product(data())
    _, results, weighty = chosen(relay.Tuple([first, product(first)]))
    assert (results, weighty) == ([], ["dense"] * 2)


def test_operators_that_are_kept_are_float32_with_their_weights():
    body = product(relay.nn.softmax(product(data())))
    assert chosen(body, kept=(0,)) == (["dense", "softmax", "dense"], ["softmax"], ["dense"])
    model = prepared(body)
    low = low_values(model.extraction).most(kept=(0, 1, 2))
    assert low == LowPrecision(results=(), weights=())
    made, _ = in_low(model, low)
    tvm.ir.assert_structural_equal(made.module, model.module)


def test_a_view_is_of_the_type_of_what_it_is_a_view_of():
    def model(kept):
        first = product(data(rows=1))
        body = product(relay.reshape(relay.nn.softmax(first), (2, 4)), depth=4)
        return chosen(body, kept)

    kinds, results, _ = model(())
    assert kinds == ["dense", "softmax", "reshape", "dense"]
    assert results == kinds[:3]
    for kept in (1, 2):
        assert model((kept,))[1] == ["dense"]


def test_pieces_of_a_joined_tensor_are_of_its_type():
    def model(kept):
        pieces = [relay.nn.softmax(product(data(name, rows=1))) for name in "xy"]
        joined = relay.concatenate(pieces, 0)
        return chosen(product(relay.nn.softmax(joined)), kept)

    kinds, results, _ = model(())
    assert kinds == ["dense", "softmax"] * 2 + ["concatenate", "softmax", "dense"]
    assert results == kinds[:-1]
    assert model((1,))[1] == ["dense", "dense", "softmax"]


def test_a_view_of_the_models_input_is_float32():
    x = relay.var("x", shape=(1, 2 * SIDE))
    _, results, _ = chosen(product(relay.reshape(x, (2, SIDE))))
    assert results == []


def test_norms_read_and_write_float32():
    scales = [relay.const(np.ones(SIDE, "float32"))] * 2
    normed = relay.nn.layer_norm(product(data()), *scales)
    kinds, results, weighty = chosen(product(relay.nn.relu(product(normed))))
    assert kinds == ["dense", "norm", "dense", "dense"]
    assert (results, weighty) == (["dense"], ["dense"] * 3)


@pytest.mark.parametrize(
    ("places", "width"),
    [
        (lambda x: relay.argmax(x, axis=1, keepdims=True), 1),
        (lambda x: relay.cast(x, "int32"), SIDE),
        (lambda x: relay.greater(x, relay.const(0.5)), SIDE),
        (lambda x: relay.topk(x, k=2, ret_type="indices"), 2),
    ],
    ids=["argmax", "cast", "truth", "topk"],
)
def test_what_is_read_as_places_is_float32(places, width):
    first = relay.nn.softmax(product(data()))
    read = places(first)
    numbers = relay.cast(read, "float32")
    other = product(relay.nn.softmax(first))
    kinds, results, _ = chosen(relay.Tuple([product(numbers, depth=width), product(other)]))
    assert kinds[:2] == ["dense", "softmax"]
    assert results == ["dense", "softmax", "dense"], "all but the first softmax"


def test_fields_of_a_tuple_are_of_one_type():
    halves = relay.split(relay.nn.softmax(product(data())), 2, axis=1)
    ends = [product(relay.nn.softmax(half), depth=SIDE // 2) for half in halves]
    kinds, results, _ = chosen(relay.Tuple(ends))
    assert kinds == ["dense", "softmax", "split", "softmax", "dense", "softmax", "dense"]
    assert results == ["dense", "softmax", "split", "softmax", "softmax"]


def test_places_of_a_sampled_image_are_float32():
    x = relay.var("x", shape=(1, 4, 5, 5))
    rois = relay.var("rois", shape=(1, 5))
    boxes = relay.nn.dense(rois, weights(5, 5))
    seen = relay.vision.roi_align(relay.nn.softmax(x), boxes, (2, 2), 1.0)
    body = product(relay.reshape(seen, (1, 16)), depth=16)
    kinds, results, weighty = chosen(body)
    assert kinds == ["softmax", "dense", "vision.roi_align", "reshape", "dense"]
    assert (results, weighty) == ([], ["dense"] * 2)


def test_only_weights_of_float32_are_rounded():
    half = relay.nn.dense(data(dtype="float16"), weights(dtype="float16"), out_dtype="float32")
    _, results, weighty = chosen(product(half))
    assert (results, weighty) == (["dense"], ["dense"])


def test_weights_that_somebody_sets_stay_as_they_are():
    kernel = relay.var("w", shape=(SIDE, SIDE))
    _, _, weighty = chosen(product(relay.nn.dense(data(), kernel)))
    assert len(weighty) == 1


def test_one_constant_of_two_products_is_rounded_once_and_kept_where_it_has_to_be():
    shared = weights()
    body = relay.nn.dense(relay.nn.softmax(relay.nn.dense(data(), shared)), shared)
    model = prepared(body)

    def constants(low):
        made, _ = in_low(model, low)
        calls = made.extraction.calls
        return [call.args[1] for call in calls if len(call.args) > 1]

    both = constants(LowPrecision(results=(), weights=(0, 2)))
    assert both[0].same_as(both[1])
    assert [str(each.data.dtype) for each in both] == ["bfloat16"] * 2
    one = constants(LowPrecision(results=(), weights=(2,)))
    assert [str(each.data.dtype) for each in one] == ["float32", "bfloat16"]


def test_calls_of_equal_types_share_a_kernel():
    value = data()
    for _ in range(4):
        value = relay.nn.softmax(product(value))
    model = prepared(product(value))
    made, types = in_low(model)
    assert types == ["bfloat16"] * 8 + ["float32"]
    digests = {operator.workload for operator in made.extraction.graph.operators}
    assert len(digests) == 4, "a first product, others, softmax, and a last product"


def test_operators_keep_their_names_kinds_and_work():
    body = product(relay.reshape(relay.nn.softmax(product(data(rows=1))), (2, 4)), depth=4)
    model = prepared(body)
    made, types = in_low(model)
    assert types == ["bfloat16"] * 3 + ["float32"]
    before, after = model.extraction.graph.operators, made.extraction.graph.operators
    for one, other in zip(before, after, strict=True):
        assert (one.name, one.kind, one.flops) == (other.name, other.kind, other.flops)
    assert model.extraction.views == made.extraction.views
    assert made.module["main"].ret_type == model.module["main"].ret_type
    again = extract(made.module)
    assert again.graph == made.extraction.graph


def test_constants_are_rounded_to_the_nearest():
    values = np.array([0.1, -0.1, 1 + 2**-8, np.inf, -np.inf, np.nan, 3.4e38, 1e-40], "float32")
    found = rounded_constant(relay.const(values))
    np.testing.assert_array_equal(found.data.numpy(), nearest(values))
