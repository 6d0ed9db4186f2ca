"""Every operator that has several forms between opset 7 and the normal form's has a rule."""

from collections import defaultdict

import onnx

import tvm_ios.onnx.rules  # noqa: F401 - its files add rules
from tvm_ios.onnx.builder import NORMAL_OPSET
from tvm_ios.onnx.rule import RULES

OLDEST = 7
"""The oldest opset that is read."""

_NAMES = """
Abs Acos Acosh Add Asin Asinh Atan Atanh Bernoulli Ceil Constant Conv ConvTranspose Cos Cosh
DeformConv Det Div Elu Equal Erf Exp Floor GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
GreaterOrEqual HardSigmoid HardSwish If IsNaN LeakyRelu Less LessOrEqual Log Loop MatMul
MaxRoiPool MaxUnpool Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression
NonZero Optional OptionalGetElement Pow QLinearMatMul RandomNormal RandomNormalLike
RandomUniform RandomUniformLike Reciprocal Relu ReverseSequence Round Selu Sigmoid Sign Sin Sinh
SoftmaxCrossEntropyLoss Softplus Softsign Sqrt Sub Tan Tanh ThresholdedRelu Where
"""
TYPES_ONLY = frozenset(_NAMES.split())
"""Operators whose versions differ in the types that they take, and in the words that say so."""
LEARNED = frozenset(
    [
        "AveragePool",
        "DequantizeLinear",
        "GRU",
        "LSTM",
        "LpPool",
        "MaxPool",
        "OptionalHasElement",
        "QuantizeLinear",
        "RNN",
    ]
)
"""Operators that have learned something whose default is what they did before."""
UNROLLED = frozenset({"Scan"})
"""Operators with a body, of which opset 8 had another form."""


def versions():
    """Schemas of the standard domain by operator: those in force in any opset that is read."""
    known = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NORMAL_OPSET:
            known[schema.name].append(schema)
    for schemas in known.values():
        schemas.sort(key=lambda schema: schema.since_version)
        first = max((s.since_version for s in schemas if s.since_version <= OLDEST), default=0)
        schemas[:] = [schema for schema in schemas if schema.since_version >= first]
    return known


def parts(schema):
    """Attributes with their defaults, inputs and outputs of an operator, without their names."""
    defaults = {
        name: (each.type, each.required, each.default_value.SerializeToString())
        for name, each in schema.attributes.items()
    }
    operands = [[each.option for each in side] for side in (schema.inputs, schema.outputs)]
    return defaults, *operands


SEVERAL = {name: schemas for name, schemas in versions().items() if len(schemas) > 1}


def test_operators_with_several_versions_have_a_rule_or_need_none():
    known = {*TYPES_ONLY, *LEARNED, *UNROLLED, *RULES}
    missing = SEVERAL.keys() - known
    assert not missing, {
        name: [each.since_version for each in SEVERAL[name]] for name in sorted(missing)
    }


def test_versions_that_differ_in_types_have_the_same_parts():
    for name in sorted(TYPES_ONLY & SEVERAL.keys() - {"Constant"}):  # read in all of its forms
        first, *others = map(parts, SEVERAL[name])
        assert all(first == other for other in others), name


def test_what_was_learned_may_be_left_out():
    for name in sorted(LEARNED):
        for old, new in zip(SEVERAL[name], SEVERAL[name][1:], strict=False):
            (before, *_), (after, *_) = parts(old), parts(new)
            assert before.items() <= after.items(), name
            learned = after.keys() - before.keys()
            assert not any(new.attributes[each].required for each in learned), name
