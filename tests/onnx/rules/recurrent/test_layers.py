"""Recurrent layers become steps that compute the same, whatever they are told."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 2, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
COUNTS = {"forward": 1, "reverse": 1, "bidirectional": 2}
EXACT = {"rtol": 1e-5, "atol": 1e-6}


def numbers(*shape):
    return (0.3 * np.random.default_rng(shape).standard_normal(shape)).astype("float32")


def parts(operator, direction="forward", layout=0):
    """Inputs of a layer by name: all that it may have but the lengths."""
    gates, count = GATES[operator] * HIDDEN, COUNTS[direction]
    state = (BATCH, count, HIDDEN) if layout else (count, BATCH, HIDDEN)
    made = {
        "x": numbers(*((BATCH, STEPS) if layout else (STEPS, BATCH)), WIDTH),
        "w": numbers(count, gates, WIDTH),
        "r": numbers(count, gates, HIDDEN),
        "b": numbers(count, 2 * gates),
        "h": numbers(*state),
    }
    if operator == "LSTM":
        made |= {"c": numbers(*state), "p": numbers(count, 3 * HIDDEN)}
    return made


def layer(operator, given, *, lengths=None, known=True, opset=14, outputs=None, **attributes):
    """A model of one layer; weights are constants, and ``known`` lengths as well."""
    given = dict(given)
    inputs = {"x": given.pop("x")}
    for name in ("h", "c"):
        if name in given:
            inputs[name] = given.pop(name)
    if lengths is not None:
        (given if known else inputs)["lengths"] = np.array(lengths, "int32")
    there = {*inputs, *given}
    order = ["x", "w", "r", "b", "lengths", "h", *(["c", "p"] if operator == "LSTM" else [])]
    model = model_of(
        operator,
        inputs,
        constants=given,
        names=[name if name in there else "" for name in order],
        opset=opset,
        outputs=outputs or (3 if operator == "LSTM" else 2),
        hidden_size=HIDDEN,
        **attributes,
    )
    return model, inputs


def require_unrolled(model, inputs, **exact):
    made = require_same(model, inputs, **exact)
    assert not {"RNN", "GRU", "LSTM"} & set(operators_of(made))


@cases(direction=COUNTS, operator=GATES, opset=[7, 22])
def test_directions_and_initial_states(operator, direction, opset):
    given = parts(operator, direction)
    require_unrolled(*layer(operator, given, direction=direction, opset=opset), **EXACT)


@pytest.mark.parametrize("left_out", [["b"], ["h", "c"], ["p"], ["b", "h", "c", "p"]])
@pytest.mark.parametrize("operator", GATES)
def test_what_is_left_out_is_zero(operator, left_out):
    given = {name: value for name, value in parts(operator).items() if name not in left_out}
    require_unrolled(*layer(operator, given), **EXACT)


@pytest.mark.parametrize("direction", COUNTS)
@pytest.mark.parametrize("operator", GATES)
def test_batch_comes_first_in_the_other_layout(operator, direction):
    given = parts(operator, direction, layout=1)
    model, inputs = layer(operator, given, direction=direction, layout=1)
    require_unrolled(model, inputs, by=["reference"], **EXACT)


@cases(
    known=[True, False],
    lengths=[[4, 4, 4], [4, 2, 1], [2, 0, 3], [0, 0, 0]],
    direction=COUNTS,
    operator=GATES,
)
def test_shorter_sequences_keep_their_states(operator, direction, lengths, known):
    given = parts(operator, direction)
    model, inputs = layer(operator, given, direction=direction, lengths=lengths, known=known)
    require_unrolled(model, inputs, by=["runtime"], **EXACT)


ACTIVATIONS = [
    "Affine",
    "Elu",
    "HardSigmoid",
    "LeakyRelu",
    "Relu",
    "ScaledTanh",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "ThresholdedRelu",
]
NUMBERED = ["Affine", "ScaledTanh", "ThresholdedRelu"]


@cases(
    where=lambda name, numbered: numbered or name not in NUMBERED,
    name=ACTIVATIONS,
    numbered=[True, False],
)
def test_activations_and_their_numbers(name, numbered):
    told = {}
    if numbered:
        told = {"activation_alpha": [0.3, 0.25, 0.4], "activation_beta": [0.6, 0.7]}
    for operator, rest in (
        ("RNN", []),
        ("GRU", ["LeakyRelu"]),
        ("LSTM", ["LeakyRelu", "HardSigmoid"]),
    ):
        model, inputs = layer(operator, parts(operator), activations=[name, *rest], **told)
        require_unrolled(model, inputs, by=["runtime"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operator", GATES)
def test_each_direction_has_activations_of_its_own(operator):
    names = ["Elu", "Tanh", "LeakyRelu", "HardSigmoid", "Softsign", "ThresholdedRelu"]
    count = {"RNN": 2, "GRU": 4, "LSTM": 6}[operator]
    model, inputs = layer(
        operator,
        parts(operator, "bidirectional"),
        direction="bidirectional",
        activations=names[-count:],
        activation_alpha=[0.3, 0.25, 0.4, 0.6],
        activation_beta=[0.7],
    )
    require_unrolled(model, inputs, by=["runtime"], **EXACT)


@pytest.mark.parametrize("operator", GATES)
def test_numbers_of_twice_the_width(operator):
    given = {name: value.astype("float64") for name, value in parts(operator).items()}
    made = require_same(*layer(operator, given), by=["reference"], **EXACT)
    assert made.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE


@cases(linear=[0, 1], clip=[None, 0.3], operator=GATES)
def test_clipping_and_linear_products(operator, clip, linear):
    told = {} if clip is None else {"clip": clip}
    if operator == "GRU":
        told["linear_before_reset"] = linear
    elif linear:
        told["activations"] = ["Relu", "Tanh", "Relu"][: 3 if operator == "LSTM" else 1]
    require_unrolled(*layer(operator, parts(operator), **told), by=["runtime"], **EXACT)


@pytest.mark.parametrize("clip", [None, 0.3])
def test_gates_may_be_coupled(clip):
    told = {} if clip is None else {"clip": clip}
    model, inputs = layer("LSTM", parts("LSTM"), input_forget=1, **told)
    require_unrolled(model, inputs, by=["runtime"], **EXACT)


@pytest.mark.parametrize("name", NUMBERED)
def test_activations_without_defaults_need_numbers(name):
    model, inputs = layer("RNN", parts("RNN"), activations=[name])
    with pytest.raises(
        ModelError, match=rf"node 'node' \(RNN\) has the activation '{name}', which"
    ):
        normal_of(model, inputs)


def test_sequences_that_are_too_long_are_refused():
    given = parts("GRU") | {"x": numbers(5000, BATCH, WIDTH)}
    model, inputs = layer("GRU", given)
    with pytest.raises(ModelError, match=r"takes 5000 steps, and is unrolled up to"):
        normal_of(model, inputs)


def test_outputs_that_nobody_takes_cost_nothing():
    model, inputs = layer("LSTM", parts("LSTM"))
    model.graph.node[0].output[0] = ""
    del model.graph.output[0]
    made = require_same(model, inputs, by=["runtime"], **EXACT)
    assert operators_of(made).count("Concat") == 0
