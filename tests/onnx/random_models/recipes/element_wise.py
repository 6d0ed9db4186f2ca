"""Recipes of operators on elements at the same place."""

from __future__ import annotations

from onnx import TensorProto

from tests.onnx.random_models.drawing import Drawing, recipe

REAL = ("float32", "float32", "float32", "float64", "float16")
NUMBERS = ("float32", "float32", "int32", "int64", "float64")
WHOLE = ("int32", "int64", "uint8", "int8")


def _plain(since, *op_types):
    @recipe(*op_types, since=since)
    def draw(graph: Drawing) -> None:
        graph.add(graph.value(*REAL))


_plain(7, "Ceil", "Cos", "Exp", "Floor", "Relu", "Sigmoid", "Sin", "Softplus", "Softsign", "Tanh")
_plain(7, "Atan", "Identity")
_plain(9, "Asinh", "Cosh", "Erf", "IsNaN", "Sinh")
_plain(10, "IsInf")
_plain(11, "Round")
_plain(14, "HardSwish")
_plain(18, "Mish")


@recipe("Abs", "Neg")
@recipe("Sign", since=9)
def signs(graph: Drawing) -> None:
    graph.add(graph.value(*NUMBERS, "int8"))


for _names, _low, _high, _since in (
    (("Acos", "Asin"), -1, 1, 7),
    (("Atanh",), -0.9, 0.9, 9),
    (("Acosh",), 1, 4, 9),
    (("Log", "Sqrt", "Reciprocal"), 0.1, 4, 7),
    (("Tan",), -1.4, 1.4, 7),
):

    @recipe(*_names, since=_since)
    def limited(graph: Drawing, low: float = _low, high: float = _high) -> None:
        graph.add(graph.fresh(graph.shape(), low=low, high=high))


_NUMBERS = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("lambd", "bias"),
    "ThresholdedRelu": ("alpha",),
}
_FIRST = {"Celu": 12, "Shrink": 9, "ThresholdedRelu": 10}
for _name, _told in _NUMBERS.items():

    @recipe(_name, since=_FIRST.get(_name, 7))
    def with_numbers(graph: Drawing, told: tuple[str, ...] = _told) -> None:
        given = {name: graph.chance.uniform(0.1, 2) for name in told if graph.yes()}
        graph.add(graph.value(*REAL), **given)


@recipe("Gelu", since=20)
def gelu(graph: Drawing) -> None:
    graph.add(graph.value(*REAL), approximate=graph.pick("none", "tanh"))


@recipe("Clip")
def clip(graph: Drawing) -> None:
    low, high = sorted([graph.chance.uniform(-3, 3), graph.chance.uniform(-3, 3)])
    told = graph.yes(), graph.yes()
    if graph.opset < 11:
        given = {"min": low} if told[0] else {}
        graph.add(graph.value(), **given, **({"max": high} if told[1] else {}))
        return
    value = graph.value(*(NUMBERS if graph.opset >= 12 else ("float32",)))
    dtype = graph.dtype_of(value)
    bounds = [
        "" if not yes else graph.const(each, dtype)
        for each, yes in zip((low, high), told, strict=True)
    ]
    if graph.yes() and told[0]:
        bounds[0] = graph.fresh([], dtype, high=-1)
    graph.add(value, *bounds)


@recipe("PRelu")
def prelu(graph: Drawing) -> None:
    value = graph.value()
    graph.add(value, graph.told(graph.broadcast(graph.shape_of(value))))


def _pair(graph: Drawing, *dtypes: str) -> list[str]:
    """Two values that broadcast, in either order."""
    value = graph.value(*dtypes)
    shape, dtype = graph.shape_of(value), graph.dtype_of(value)
    same = [n for n, known in graph.known.items() if known == graph.known[value]]
    other = graph.pick(*same) if graph.yes() else graph.told(graph.broadcast(shape), dtype)
    return [value, other] if graph.yes() else [other, value]


@recipe("Add", "Sub", "Mul")
def arithmetic(graph: Drawing) -> None:
    graph.add(*_pair(graph, *NUMBERS))


@recipe("Max", "Min")
def extremes(graph: Drawing) -> None:
    pair = _pair(graph, *(NUMBERS if graph.opset >= 12 else ("float32",)))
    graph.add(*(pair if graph.yes() else [*pair, pair[0]]))


@recipe("Sum", "Mean", since=8)
def totals(graph: Drawing) -> None:
    pair = _pair(graph, "float32", "float32", "float64")
    graph.add(*(pair if graph.yes() else [*pair, pair[0]]))


@recipe("Div")
def quotient(graph: Drawing) -> None:
    value = graph.value(*NUMBERS)
    shape = graph.broadcast(graph.shape_of(value))
    graph.add(value, graph.told(shape, graph.dtype_of(value), low=1))


@recipe("Mod", since=10)
def remainder(graph: Drawing) -> None:
    value = graph.value("int32", "int64", "float32", "int8", "uint8")
    dtype = graph.dtype_of(value)
    fmod = int(dtype == "float32" or graph.yes())
    graph.add(value, graph.told(graph.broadcast(graph.shape_of(value)), dtype), fmod=fmod)


@recipe("Pow")
def power(graph: Drawing) -> None:
    shape = graph.shape()
    new = graph.opset >= 12
    base = graph.pick("float32", "float32", "float64", "int32") if new else "float32"
    value = graph.fresh(shape, base, low=0.2)
    kind = graph.pick("float32", "int32", "int64") if new else "float32"
    graph.add(value, graph.told(graph.broadcast(shape), kind, low=1, high=3))


@recipe("Equal", "Greater", "Less")
@recipe("GreaterOrEqual", "LessOrEqual", since=12)
def comparison(graph: Drawing) -> None:
    equal = graph.op_type == "Equal"
    kinds = ["int32", "int64"] if graph.opset >= 9 or equal else []
    kinds += ["bool"] if equal else []
    kinds += ["float32", "float64"] if graph.opset >= 11 or not equal else []
    graph.add(*_pair(graph, *kinds))


@recipe("And", "Or", "Xor")
def logic(graph: Drawing) -> None:
    graph.add(*_pair(graph, "bool"))


@recipe("Not")
def negation(graph: Drawing) -> None:
    graph.add(graph.value("bool"))


@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def bits(graph: Drawing) -> None:
    graph.add(*_pair(graph, *WHOLE))


@recipe("BitwiseNot", since=18)
def other_bits(graph: Drawing) -> None:
    graph.add(graph.value(*WHOLE))


@recipe("BitShift", since=11)
def shift(graph: Drawing) -> None:
    value = graph.value("uint8", "uint32", "uint64")
    shape = graph.broadcast(graph.shape_of(value))
    other = graph.told(shape, graph.dtype_of(value), low=1, high=5)
    graph.add(value, other, direction=graph.pick("LEFT", "RIGHT"))


@recipe("Where", since=9)
def where(graph: Drawing) -> None:
    pair = _pair(graph, "float32", "int64", "float64", "int32", "bool")
    shape = max((graph.shape_of(each) for each in pair), key=len)
    graph.add(graph.told(graph.broadcast(shape), "bool"), *pair)


_KINDS = ("FLOAT", "DOUBLE", "FLOAT16", "INT32", "INT64", "INT8", "BOOL")


@recipe("Cast")
def cast(graph: Drawing) -> None:
    graph.add(
        graph.value("int32", "bool", "float32", "uint8"),
        to=TensorProto.DataType.Value(graph.pick(*_KINDS)),
    )


@recipe("CastLike", since=15)
def cast_like(graph: Drawing) -> None:
    graph.add(graph.value("int32", "float32"), graph.value("int64", "float64", "float32"))
