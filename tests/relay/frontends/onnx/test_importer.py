"""ONNX becomes Relay that computes what onnx's reference does; what cannot be read is named."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relay

from tests.relay.frontends.onnx.one_input import (
    SHAPE,
    answers,
    assert_as_the_reference,
    model,
    read,
    refused,
)
from tvm_ios.driver.model_source import from_onnx
from tvm_ios.relay.frontends.onnx.converters import CONVERTERS


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1), (1,), (4,), (2, 3, 4, 4), ()])
def test_prelu_takes_every_slope_that_broadcasts(shape):
    slope = np.linspace(-0.5, 0.5, num=int(np.prod(shape))).reshape(shape).astype("float32")
    assert_as_the_reference(
        model(helper.make_node("PRelu", ["x", "slope"], ["y"]), weights={"slope": slope})
    )


def test_shape_arithmetic_and_constant_branches_are_folded():
    def branch(name, node, *constants):
        made = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        return helper.make_graph([*constants, node], name, [], [made])

    one = numpy_helper.from_array(np.array([1], "int64"), "axes")
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "index"], ["rows"]),
        helper.make_node("Equal", ["rows", "three"], ["is_three"]),
        helper.make_node(
            "If",
            ["is_three"],
            ["chosen"],
            then_branch=branch("yes", helper.make_node("Neg", ["x"], ["yes_y"])),
            else_branch=branch(
                "no",
                helper.make_node("Squeeze", ["x", "axes"], ["no_y"]),
                helper.make_node("Constant", [], ["axes"], value=one),
            ),
        ),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["chosen", "target"], ["y"]),
    ]
    weights = {
        "index": np.array([1], "int64"),
        "three": np.array([3], "int64"),
        "rest": np.array([-1], "int64"),
    }
    assert_as_the_reference(model(*nodes, weights=weights))


def test_a_branch_reads_an_input_that_is_read_later_too():
    made = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "branch", [], [made])
    nodes = [
        helper.make_node("If", ["yes"], ["chosen"], then_branch=branch, else_branch=branch),
        helper.make_node("Mul", ["x", "chosen"], ["y"]),
    ]
    assert_as_the_reference(model(*nodes, weights={"yes": np.array(True)}))


@pytest.mark.slow(1)
def test_functions_are_written_out():
    twice = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    of_mine = helper.make_node("Twice", ["x"], ["y"], domain="mine")
    assert_as_the_reference(model(of_mine, functions=[twice], domains=["mine"]))
    of_onnx = helper.make_node("Softplus", ["x"], ["z"])
    center = helper.make_node("GroupNormalization", ["z", "s", "b"], ["y"], num_groups=3)
    weights = {"s": np.ones(3, "float32"), "b": np.zeros(3, "float32")}
    assert_as_the_reference(model(of_onnx, center, opset=21, weights=weights))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            helper.make_node("Det", ["x"], ["y"], name="volume"),
            r"^the model: node 'volume' \(Det\) has more than three rows; give fewer, or save ",
        ),
        (
            helper.make_node("Foo", ["x"], ["y"], domain="mine"),
            r"\(mine\.Foo\) is of the domain 'mine', which is not known; save the model with",
        ),
        (
            helper.make_node("Relu", ["x"], ["y"], domain="com.microsoft"),
            r"\(com\.microsoft\.Relu\) is of the domain 'com.microsoft', which is not known",
        ),
        (
            helper.make_node("NonZero", ["x"], ["y"], name="where"),
            r"node 'where' \(NonZero\) gives a result whose shape only values tell, .*static",
        ),
        (
            helper.make_node("Concat", ["x", "one"], ["y"], name="join", axis=0),
            r"node 'join' \(Concat\) is no valid ONNX: .*Concat must have same rank",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_node(node, message):
    weights = {"one": np.ones(1, "float32"), "scales": np.ones(4, "float32")}
    made = model(node, opset=18, weights=weights, domains=["mine", "com.microsoft"])
    said = refused(made)
    assert re.search(message, said), said


@pytest.mark.parametrize("axes", [[1], [1, 2], [-1], [2, 3]])
def test_reductions_take_axes_as_an_input(axes):
    node = helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)
    assert_as_the_reference(model(node, opset=18, weights={"axes": np.array(axes, "int64")}))


@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize(
    ("extent", "attributes"),
    [
        (2, {"kernel_shape": [1, 1], "strides": [2, 2]}),
        (2, {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1]}),
        (5, {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [0, 1, 1, 1]}),
        (6, {"kernel_shape": [3, 2], "strides": [2, 3]}),
    ],
)
def test_no_window_of_a_pooling_begins_beyond_the_data(operator, extent, attributes):
    node = helper.make_node(operator, ["x"], ["y"], ceil_mode=1, **attributes)
    assert_as_the_reference(
        model(node, opset=22, shape=(1, 2, extent, extent)), (1, 2, extent, extent)
    )


@pytest.mark.parametrize("divisor", [np.inf, -np.inf, 2.5, -2.5])
def test_remainders_have_the_sign_of_the_divisor(divisor):
    weights = {"w": np.array(divisor, "float32")}
    node = helper.make_node("Mod", ["x", "w"], ["y"])
    module = read(model(node, weights=weights, shape=(4,)), (4,))
    value = np.array([-3.0, 3.0, 5.5, 0.0], "float32")
    assert answers(module, value)[0].tolist() == np.mod(value, np.float32(divisor)).tolist()


@pytest.mark.parametrize(("operator", "infinite"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_the_greatest_of_a_row_that_is_masked_is_infinite(operator, infinite):
    node = helper.make_node(operator, ["x", "axes"], ["y"])
    weights = {"axes": np.array([1])}
    module = read(model(node, weights=weights, opset=20, shape=(3, 2)), (3, 2))
    last = -np.finfo("float32").max if infinite < 0 else np.finfo("float32").max
    value = np.array([[infinite, infinite], [1, infinite], [last, infinite]], "float32")
    assert answers(module, value)[0].ravel().tolist() == [infinite, 1, last]


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_number_is_its_own_greatest_value(keepdims):
    node = helper.make_node("ReduceMax", ["x"], ["y"], keepdims=keepdims)
    value = np.array(2.5, "float32")
    (found,) = answers(read(model(node, opset=17, shape=()), ()), value)
    assert found.ravel().tolist() == [2.5]


def test_the_order_of_places_is_no_layout():
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], storage_order=1)
    assert_as_the_reference(model(node, shape=(1, 2, 5, 6)), (1, 2, 5, 6))


def test_errors_of_converters_are_no_refusals(monkeypatch):
    def broken(node, inputs):
        raise KeyError("axis")

    monkeypatch.setitem(CONVERTERS, "Relu", broken)
    with pytest.raises(KeyError, match="axis") as caught:
        read(model(helper.make_node("Relu", ["x"], ["y"], name="first")))
    assert caught.value.__notes__ == ["the model: node 'first' (Relu)"]


def test_what_tvm_refuses_is_refused(monkeypatch):
    def broken(node, inputs):
        return relay.add(inputs[0], relay.const(np.ones(5, "float32")))

    monkeypatch.setitem(CONVERTERS, "Relu", broken)
    said = refused(model(helper.make_node("Relu", ["x"], ["y"], name="first")))
    assert "node 'first' (Relu) cannot be written in Relay (" in said


def test_bfloat16_is_computed_in_float32():
    made = model(
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["w"], ["half"], to=TensorProto.BFLOAT16),
        helper.make_node("Mul", ["h", "half"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
        weights={"w": np.array(0.5, "float32")},  # which rounds nothing
    )
    value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    (expected,) = ReferenceEvaluator(made).run(None, {"x": value})
    np.testing.assert_array_equal(answers(read(made), value)[0], expected)


def test_packed_numbers_are_refused():
    packed = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    assert "(Cast) has 'y' of the type INT4, which Relay lacks" in refused(model(packed, opset=21))


def test_inputs_of_unknown_types_are_named():
    made = model(helper.make_node("Identity", ["x"], ["y"]))
    for value in (made.graph.input[0], made.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.STRING
    assert "the model: input 'x' has 'x' of the type STRING, which Relay lacks" in refused(made)


def test_messages_of_tvm_are_printed_again_afterwards(capfd):
    refused(model(helper.make_node("NonZero", ["x"], ["y"])))
    with pytest.raises(tvm.TVMError):
        relay.transform.InferType()(
            tvm.IRModule.from_expr(relay.add(relay.const([1.0, 2.0]), relay.const([1.0, 2.0, 3.0])))
        )
    assert "Incompatible broadcast" in capfd.readouterr().err


@pytest.mark.slow
def test_threads_import_one_after_another():
    made = model(
        *(helper.make_node("Relu", ["x" if not n else f"y{n - 1}"], [f"y{n}"]) for n in range(30)),
        outputs=("y29",),
    )
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: from_onnx(made, {"x": SHAPE}), range(8)))
    for module, _ in found:
        tvm.ir.assert_structural_equal(module, found[0][0])


TIES = np.array([[0.5, 1.5, 2.5, np.inf], [-0.5, -1.5, 6.5, -np.inf]], "float32")


@pytest.mark.parametrize(
    ("node", "weights", "value"),
    [
        (helper.make_node("Round", ["x"], ["y"]), {}, TIES),
        (
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], axis=0),
            {"scale": np.array([1.0, 0.5], "float32"), "zero": np.array([3, 0], "int8")},
            np.array([[0.5, 1.5, 2.5, 200.0], [-0.25, -0.75, 1.25, -200.0]], "float32"),
        ),
        (helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"]), {}, 255 - TIES[:, :3]),
    ],
    ids=["round", "quantize", "dynamic"],
)
def test_of_two_numbers_that_are_as_near_the_even_one_is_taken(node, weights, value):
    made = model(node, weights=weights, outputs=node.output, shape=value.shape)
    found = answers(read(made, value.shape), value)
    for got, wanted in zip(found, ReferenceEvaluator(made).run(None, {"x": value}), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.slow(2)
def test_a_chain_of_quantised_steps_is_code_of_its_length():
    nodes, before = [], "x"
    for place in range(12):  # code of exponential length would not end
        nodes += [
            helper.make_node("QuantizeLinear", [before, "scale", "zero"], [f"q{place}"]),
            helper.make_node("DequantizeLinear", [f"q{place}", "scale", "zero"], [f"d{place}"]),
            helper.make_node("Neg", [f"d{place}"], [before := f"s{place}"]),
        ]
    weights = {"scale": np.array(0.01, "float32"), "zero": np.array(100, "uint8")}
    assert_as_the_reference(
        model(*nodes, weights=weights, outputs=[before], shape=(4,), opset=21), (4,)
    )


@pytest.mark.parametrize("operator", ["Bernoulli", "RandomNormalLike", "RandomUniformLike"])
def test_numbers_that_are_drawn_are_no_constants(operator):
    drawn = helper.make_node(operator, ["x"], ["y"], name="draw")
    assert "draws numbers, and compiled code would draw the same in each run" in refused(
        model(drawn)
    )
