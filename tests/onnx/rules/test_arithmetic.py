import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((3, 4)).astype("float32")


@cases(op_type=["Max", "Min", "Sum", "Mean"], opset=[7, 8, 13], count=[1, 2, 3, 5])
def test_chains(op_type, count, opset):
    shapes = [(3, 4)] * 5 if opset < 8 else [(3, 4), (4,), (3, 1), (1, 1), (3, 4)]
    inputs = {f"x{n}": RANDOM.standard_normal(shapes[n]).astype("float32") for n in range(count)}
    # runtimes add in other orders
    rtol = 0 if op_type in ("Max", "Min") else 1e-6
    made = require_same(model_of(op_type, inputs, opset=opset), inputs, rtol=rtol, atol=rtol)
    assert all(len(node.input) <= 2 for node in made.graph.node)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float64"])
@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_chains_of_other_types(op_type, dtype):
    inputs = {f"x{n}": RANDOM.integers(0, 9, (3, 4)).astype(dtype) for n in range(3)}
    require_same(model_of(op_type, inputs), inputs)


@pytest.mark.parametrize("opset", [7, 19, 23])
@pytest.mark.parametrize("kind", ["FLOAT", "INT32", "BOOL", "DOUBLE"])
def test_cast(kind, opset):
    import onnx

    model = model_of("Cast", {"x": X}, to=onnx.TensorProto.DataType.Value(kind), opset=opset)
    made = require_same(model, {"x": X})
    assert operators_of(made) == ["Identity" if kind == "FLOAT" else "Cast"]


@pytest.mark.parametrize("opset", [15, 19, 23])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_cast_like(dtype, opset):
    inputs = {"x": X, "like": np.zeros(2, dtype)}
    made = require_same(model_of("CastLike", inputs, opset=opset), inputs)
    assert operators_of(made) == ["Identity" if dtype == "float32" else "Cast"]


@cases(opset=[10, 20], signs=[{}, {"negative": 0}, {"positive": 0}], none=[False, True])
def test_infinities(signs, opset, none):
    inputs = {"x": np.array([np.inf, -np.inf, np.nan, 1, -2], "float32")}
    told = {f"detect_{sign}": 0 for sign in (["negative", "positive"] if none else signs)}
    require_same(model_of("IsInf", inputs, opset=opset, **told), inputs)


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("shape", [(4,), (1,), (3, 1), (3, 4)])
def test_slopes(shape, opset):
    slope = {"slope": RANDOM.standard_normal(shape).astype("float32")}
    made = require_same(model_of("PRelu", {"x": X}, constants=slope, opset=opset), {"x": X})
    assert operators_of(made) == ["Less", "Mul", "Where"]


@cases(
    where=lambda added, opset, **_: opset >= 11 or added is not None,
    opset=[7, 9, 11, 13],
    factors=[{}, {"alpha": 0.5}, {"alpha": 2.0, "beta": -0.25}],
    transposed=[(0, 0), (0, 1), (1, 0), (1, 1)],
    added=[None, (5,), (3, 5), (3, 1), ()],
)
def test_products_with_a_sum(transposed, factors, added, opset):
    matrices = {"a": RANDOM.standard_normal((3, 4)), "b": RANDOM.standard_normal((4, 5))}
    inputs = {
        name: np.ascontiguousarray(each.T if turned else each, "float32")
        for (name, each), turned in zip(matrices.items(), transposed, strict=True)
    }
    if added is not None:
        inputs["c"] = RANDOM.standard_normal(added).astype("float32")
    told = {"transA": transposed[0], "transB": transposed[1], **factors}
    model = model_of("Gemm", inputs, opset=opset, **told)
    made = require_same(model, inputs, rtol=1e-5, atol=1e-5)
    assert set(operators_of(made)) <= {"Transpose", "MatMul", "Mul", "Add"}


def test_constant_matrix_is_transposed_at_once():
    given = {"b": RANDOM.standard_normal((5, 4)).astype("float32")}
    model = model_of("Gemm", {"x": X}, constants=given, transB=1)
    assert operators_of(require_same(model, {"x": X}, rtol=1e-5, atol=1e-5)) == ["MatMul"]


def test_half_of_whole_numbers_is_refused():
    inputs = {"a": np.ones((2, 2), "int32"), "b": np.ones((2, 2), "int32")}
    require_same(model_of("Gemm", inputs, alpha=3.0), inputs, by=["reference"])
    with pytest.raises(ModelError, match="give a whole one"):
        normal_of(model_of("Gemm", inputs, alpha=0.5), inputs)
