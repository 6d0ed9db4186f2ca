import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).random((2, 3, 4)).astype("float32") + 0.5
NAMES = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
NEAR = {"rtol": 1e-6, "atol": 1e-6}


def reduced(name, axes, opset, **told):
    """A model that reduces, with axes in the form of an opset."""
    if opset < (13 if name == "Sum" else 18):
        told = told if axes is None else {**told, "axes": axes}
        return model_of(f"Reduce{name}", {"x": X}, opset=opset, **told)
    constants = {} if axes is None else {"axes": np.array(axes, "int64")}
    return model_of(f"Reduce{name}", {"x": X}, constants=constants, opset=opset, **told)


@cases(
    where=lambda axes, opset, **_: opset >= 11 or not axes or min(axes) >= 0,
    name=NAMES,
    opset=[7, 11, 13, 18],
    axes=[None, [1], [2, 0], [-1], [-1, 0]],
    keepdims=[0, 1],
)
def test_axes_are_told(name, axes, keepdims, opset):
    made = require_same(reduced(name, axes, opset, keepdims=keepdims), {"x": X}, **NEAR)
    left = {f"Reduce{each}" for each in ("Max", "Mean", "Min", "Prod", "Sum")}
    for node in made.graph.node:
        if node.op_type.startswith("Reduce"):
            assert node.op_type in left
            assert len(node.input) == 2
            assert {each.name for each in node.attribute} == {"keepdims", "noop_with_empty_axes"}


@pytest.mark.parametrize("name", NAMES)
def test_no_axis_is_each_element(name):
    for axes in (None, []):
        model = reduced(name, axes, 18, noop_with_empty_axes=1)
        # onnxruntime gives the elements themselves, whatever they are reduced by.
        made = require_same(model, {"x": X}, by=["reference"], **NEAR)
        assert f"Reduce{name}" not in operators_of(made)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_other_types(dtype):
    inputs = {"x": (8 * X).astype(dtype)}
    for name in ("Sum", "Max", "Mean", "Prod", "L1", "SumSquare"):
        given = {"axes": np.array([-1])}
        # The reference adds 32 bits to 64.
        by = ["runtime"] if dtype == "int32" else ["runtime", "reference"]
        require_same(model_of(f"Reduce{name}", inputs, constants=given), inputs, by=by, **NEAR)


def test_axes_that_only_the_run_tells_are_refused():
    inputs = {"x": X, "axes": np.array([1])}
    with pytest.raises(ModelError, match="takes axes"):
        normal_of(model_of("ReduceSum", inputs), inputs)


def test_roots_of_whole_numbers_are_cut_off():
    inputs = {"x": np.arange(12, dtype="int32").reshape(3, 4)}
    require_same(reduced_of("L2", inputs), inputs, by=["reference"])


@pytest.mark.parametrize("name", ["LogSum", "LogSumExp"])
def test_logarithms_of_whole_numbers_are_refused(name):
    inputs = {"x": np.arange(12, dtype="int32").reshape(3, 4)}
    with pytest.raises(ModelError, match="cast them"):
        normal_of(reduced_of(name, inputs), inputs)


def test_exponentials_do_not_overflow():
    rows = [[1e4, 1e4 - 1, 0], [-np.inf, -np.inf, -np.inf], [np.inf, 1, 0], [-1e4, -1e4, -np.inf]]
    inputs = {"x": np.array(rows, "float32")}
    require_same(reduced_of("LogSumExp", inputs), inputs, by=["runtime"], **NEAR)


def reduced_of(name, inputs):
    return model_of(f"Reduce{name}", inputs, constants={"axes": np.array([1])}, keepdims=0)
