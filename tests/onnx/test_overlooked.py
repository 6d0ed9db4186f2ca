"""Models that runtimes run, and that onnx's checker or inference would not take."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx.forms import normal_of, outputs_of
from tests.onnx.rules.runtime.of_runtime import model_of_runtime
from tvm_ios.onnx.overlooked import put_right

X = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")


def of_two_nodes():
    """A model whose nodes are in order, and whose values have no types but that of the input."""
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    graph = helper.make_graph(nodes, "graph", given, [onnx.ValueInfoProto(name="y")])
    version = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[version], ir_version=8)


def unsorted(model):
    model.graph.node.reverse()


def with_wrong_types(model):
    model.graph.value_info.add(name="t").type.tensor_type.elem_type = TensorProto.INT8
    model.graph.value_info.add(name="y")


def without_names(model):
    model.graph.name, model.ir_version = "", 0


def with_two_names_of_a_domain(model):
    model.opset_import.add(domain="ai.onnx", version=17)


@pytest.mark.parametrize(
    "change", [unsorted, with_wrong_types, without_names, with_two_names_of_a_domain]
)
def test_what_is_overlooked(change):
    model = of_two_nodes()
    change(model)
    put_right(model)
    onnx.checker.check_model(model)
    (found,) = outputs_of(normal_of(model, {"x": X}), {"x": X}, by="runtime")
    np.testing.assert_array_equal(found, np.maximum(-X, 0))


def test_nodes_behind_a_graph_that_takes_their_results():
    chosen = helper.make_graph(
        [], "chosen", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, X.shape)]
    )
    model = of_two_nodes()
    model.graph.node[1].CopyFrom(
        helper.make_node("If", ["c"], ["y"], then_branch=chosen, else_branch=chosen)
    )
    model.graph.input.add().CopyFrom(helper.make_tensor_value_info("c", TensorProto.BOOL, ()))
    model.graph.node.reverse()
    put_right(model)
    assert [node.op_type for node in model.graph.node] == ["Neg", "If"]


def test_a_cycle_is_left_to_the_checker():
    model = of_two_nodes()
    model.graph.node[0].input[0] = "y"
    put_right(model)
    with pytest.raises(onnx.checker.ValidationError, match="topologically sorted"):
        onnx.checker.check_model(model)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_norms_that_the_runtime_writes_into_older_models(op_type):
    model, inputs = model_of_runtime(op_type, [X, np.ones(3, "float32")], domain="")
    model.opset_import[0].version = 13
    (wanted,) = outputs_of(model, inputs, by="runtime")
    put_right(model)
    onnx.checker.check_model(model)
    made = normal_of(model, inputs)
    assert not any(node.domain for node in made.graph.node)
    (found,) = outputs_of(made, inputs, by="runtime")
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_domain_that_is_not_told():
    model = of_two_nodes()
    model.graph.node[1].CopyFrom(helper.make_node("Gelu", ["t"], ["y"], domain="com.microsoft"))
    put_right(model)
    onnx.checker.check_model(model)
