import numpy as np
import pytest

from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 5, 6)).astype("float32")


@pytest.fixture(params=[True, False], ids=["constant", "at run"])
def of_indices(request):
    """Maker of models whose indices are constant, or told by the run; and its inputs."""

    def make(op_type, indices, more=None, **told):
        more = more or {}
        if not request.param:
            inputs = {"x": X, "indices": indices, **more}
            return model_of(op_type, inputs, **told), inputs
        names = ["x", "indices", *more]
        model = model_of(
            op_type, {"x": X, **more}, constants={"indices": indices}, names=names, **told
        )
        return model, {"x": X, **more}

    return make


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_gather(of_indices, shape, axis, opset, dtype):
    least = 0 if opset < 11 else -4
    indices = RANDOM.integers(least, 4, shape).astype(dtype)
    require_same(*of_indices("Gather", np.asarray(indices), axis=axis, opset=opset))


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


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 2, -2])
def test_gather_elements(of_indices, axis, opset):
    for shape, by in (((2, 3, 4), ["runtime"]), (X.shape, ["reference", "runtime"])):
        indices = RANDOM.integers(-4, 4, shape)
        require_same(*of_indices("GatherElements", indices, axis=axis, opset=opset), by=by)


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize(
    ("shape", "batch"), [((3, 2), 0), ((1,), 0), ((3,), 0), ((4, 2), 1), ((4, 5, 1), 2)]
)
def test_gather_nd(of_indices, shape, batch, opset):
    if batch and opset < 12:
        pytest.skip("the opset has no batch_dims")
    told = {"batch_dims": batch} if batch else {}
    indices = RANDOM.integers(-4, 4, shape)
    require_same(*of_indices("GatherND", indices, opset=opset, **told))


@pytest.mark.parametrize(
    "op_type", ["Scatter 9", "Scatter 10"] + [f"ScatterElements {n}" for n in (11, 13, 16, 18)]
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements(of_indices, axis, op_type):
    op_type, opset = op_type.split()
    if int(opset) < 11:
        axis %= 3
    place = RANDOM.permutation(4)[:2] - (4 if int(opset) >= 11 else 0)
    shape = [2, 2, 2]
    along = [1, 1, 1]
    along[axis] = 2
    indices = np.ascontiguousarray(np.broadcast_to(place.reshape(along), shape))
    updates = {"updates": RANDOM.standard_normal(shape).astype("float32")}
    model, inputs = of_indices(op_type, indices, updates, axis=axis, opset=int(opset))
    made = require_same(model, inputs, by=["runtime"])
    if op_type != "Scatter":
        require_same(model, inputs, by=["reference"])
    assert operators_of(made)[-1] == "ScatterElements"


@pytest.mark.parametrize(("opset", "how"), [(16, "add"), (18, "max"), (18, "mul"), (18, "min")])
def test_scatter_elements_with_a_reduction(of_indices, how, opset):
    indices = RANDOM.integers(-4, 4, (3, 3, 3))
    updates = {"updates": RANDOM.standard_normal((3, 3, 3)).astype("float32")}
    require_same(
        *of_indices("ScatterElements", indices, updates, axis=1, reduction=how, opset=opset)
    )


@pytest.mark.parametrize("opset", [11, 13, 16, 18])
@pytest.mark.parametrize("how", ["none", "add", "mul"])
def test_scatter_nd(of_indices, how, opset):
    if how != "none" and opset < 16:
        pytest.skip("the opset has no reduction")
    told = {} if how == "none" else {"reduction": how}
    indices = np.array([[0, -1], [-2, 3], [1, 1]])
    updates = {"updates": RANDOM.standard_normal((3, 6)).astype("float32")}
    require_same(*of_indices("ScatterND", indices, updates, opset=opset, **told))


@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("axis", [None, 0, 2, -1])
def test_compress(axis, opset):
    told = {} if axis is None else {"axis": axis % 3 if opset < 11 else axis}
    given = {"taken": np.array([False, True, True, False, True][: 3 if axis == 0 else 5])}
    require_same(model_of("Compress", {"x": X}, constants=given, opset=opset, **told), {"x": X})


@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
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
