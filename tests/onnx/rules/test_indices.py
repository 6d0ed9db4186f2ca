import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 5, 6)).astype("float32")


def of_indices(at_run, op_type, indices, more=None, **told):
    """A model whose indices are constant, or which the run tells; and its inputs."""
    more = more or {}
    if at_run:
        inputs = {"x": X, "indices": indices, **more}
        return model_of(op_type, inputs, **told), inputs
    names, constants = ["x", "indices", *more], {"indices": indices}
    inputs = {"x": X, **more}
    return model_of(op_type, inputs, constants=constants, names=names, **told), inputs


@cases(
    opset=[7, 11, 13],
    axis=[0, 1, -1],
    shape=[(), (3,), (2, 3), (0,)],
    dtype=["int32", "int64"],
    at_run=[False, True],
)
def test_gather(at_run, shape, axis, opset, dtype):
    least = 0 if opset < 11 else -4
    indices = RANDOM.integers(least, 4, shape).astype(dtype)
    require_same(*of_indices(at_run, "Gather", np.asarray(indices), axis=axis, opset=opset))


@pytest.mark.parametrize(("indices", "operators"), [(-1, "Slice Reshape"), ([1, 3], "Slice")])
def test_gather_at_equal_distances_is_a_slice(indices, operators):
    model = model_of("Gather", {"x": X}, constants={"indices": np.array(indices)}, axis=1)
    assert operators_of(require_same(model, {"x": X})) == operators.split()


def test_index_outside_is_refused():
    model = model_of("Gather", {"x": X}, constants={"indices": np.array([1, 4])})
    with pytest.raises(ModelError, match="give indices within"):
        normal_of(model, {"x": X})


def test_places_that_are_counted_are_not_moved():
    from onnx import helper

    from tests.onnx.forms import graph_of

    nodes = [
        helper.make_node("ArgMax", ["x"], ["place"], axis=0, keepdims=0),
        helper.make_node("Gather", ["x", "place"], ["y"], axis=0),
    ]
    made = require_same(graph_of(nodes, {"x": X}, ["y"]), {"x": X})
    assert operators_of(made) == ["ArgMax", "Gather"]


@cases(opset=[11, 13], axis=[0, 2, -2], at_run=[False, True])
def test_gather_elements(at_run, axis, opset):
    for shape, by in (((2, 3, 4), ["runtime"]), (X.shape, ["reference", "runtime"])):
        indices = RANDOM.integers(-4, 4, shape)
        require_same(*of_indices(at_run, "GatherElements", indices, axis=axis, opset=opset), by=by)


@cases(
    where=lambda opset, shape_and_batch, **_: opset >= 12 or not shape_and_batch[1],
    opset=[11, 13],
    shape_and_batch=[((3, 2), 0), ((1,), 0), ((3,), 0), ((4, 2), 1), ((4, 5, 1), 2)],
    at_run=[False, True],
)
def test_gather_nd(at_run, shape_and_batch, opset):
    shape, batch = shape_and_batch
    told = {"batch_dims": batch} if batch else {}
    indices = RANDOM.integers(-4, 4, shape)
    require_same(*of_indices(at_run, "GatherND", indices, opset=opset, **told))


@cases(
    op_type=["Scatter 9", *(f"ScatterElements {n}" for n in (11, 16, 18))],
    axis=[0, 1, -1],
    at_run=[False, True],
)
def test_scatter_elements(at_run, axis, op_type):
    op_type, opset = op_type.split()
    if int(opset) < 11:
        axis %= 3
    place = RANDOM.permutation(4)[:2] - (4 if int(opset) >= 11 else 0)
    shape = [2, 2, 2]
    along = [1, 1, 1]
    along[axis] = 2
    indices = np.ascontiguousarray(np.broadcast_to(place.reshape(along), shape))
    updates = {"updates": RANDOM.standard_normal(shape).astype("float32")}
    model, inputs = of_indices(at_run, op_type, indices, updates, axis=axis, opset=int(opset))
    made = require_same(model, inputs, by=["runtime"])
    if op_type != "Scatter":
        require_same(model, inputs, by=["reference"])
    assert operators_of(made)[-1] == "ScatterElements"


@pytest.mark.parametrize("at_run", [False, True])
@pytest.mark.parametrize(("opset", "how"), [(16, "add"), (18, "max"), (18, "mul"), (18, "min")])
def test_scatter_elements_with_a_reduction(at_run, how, opset):
    indices = RANDOM.integers(-4, 4, (3, 3, 3))
    updates = {"updates": RANDOM.standard_normal((3, 3, 3)).astype("float32")}
    require_same(
        *of_indices(at_run, "ScatterElements", indices, updates, axis=1, reduction=how, opset=opset)
    )


@cases(
    where=lambda how, opset, **_: opset >= 16 or how == "none",
    opset=[11, 13, 16, 18],
    how=["none", "add", "mul"],
    at_run=[False, True],
)
def test_scatter_nd(at_run, how, opset):
    told = {} if how == "none" else {"reduction": how}
    indices = np.array([[0, -1], [-2, 3], [1, 1]])
    updates = {"updates": RANDOM.standard_normal((3, 6)).astype("float32")}
    require_same(*of_indices(at_run, "ScatterND", indices, updates, opset=opset, **told))


@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("axis", [None, 0, 2, -1])
def test_compress(axis, opset):
    told = {} if axis is None else {"axis": axis % 3 if opset < 11 else axis}
    given = {"taken": np.array([False, True, True, False, True][: 3 if axis == 0 else 5])}
    require_same(model_of("Compress", {"x": X}, constants=given, opset=opset, **told), {"x": X})


@cases(opset=[9, 11], axis=[-1, 0, 1], dtype=["int64", "int32", "float32"])
def test_one_hot(axis, dtype, opset):
    inputs = {"indices": RANDOM.integers(0, 5, (3, 4)).astype(dtype)}
    if opset == 11:
        inputs["indices"] = RANDOM.integers(-7, 9, (3, 4)).astype(dtype)
    given = {"depth": np.array(5, "int64"), "values": np.array([-1, 2], "float32")}
    model = model_of("OneHot", inputs, constants=given, axis=axis, opset=opset)
    require_same(model, inputs, by=["runtime"] if dtype == "int64" else [])
    if dtype != "int64":  # the reference takes indices outside modulo the depth
        inputs["indices"] = np.clip(inputs["indices"], 0, 4)
        require_same(model, inputs, by=["reference"])


@cases(axis=[1, -2, 3], mode=["linear", "circular"], begins=[None, "constant", "told"])
def test_written_parts(axis, mode, begins):
    shape = [3, 5, 4, 6]
    inputs = {"x": RANDOM.standard_normal(shape).astype("float32")}
    shape[axis] = 2
    inputs["update"] = RANDOM.standard_normal(shape).astype("float32")
    first = np.array([0, 2, 7 if mode == "circular" else 1])
    more = {} if begins is None else {"begins": first}
    constants = {} if begins == "told" else more
    inputs |= more if begins == "told" else {}
    model = model_of("TensorScatter", inputs, constants=constants, opset=24, axis=axis, mode=mode)
    require_same(model, inputs)
