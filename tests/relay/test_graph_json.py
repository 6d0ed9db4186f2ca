"""Graph JSON is read as ``relay.build`` writes it; what cannot be run is refused."""

from __future__ import annotations

import json

import pytest

from tvm_ios.errors import PlanError
from tvm_ios.plan.kernel_graph import GraphTensor
from tvm_ios.relay.graph_json import read_graph_json


@pytest.fixture
def graph():
    """x -> split (two outputs) -> reshape of the second."""

    def node(name, kernel, outputs, inputs):
        attrs = {"func_name": kernel, "num_outputs": str(outputs), "flatten_data": "0"}
        return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": inputs}

    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            node("split", "fused_split", 2, [[0, 0, 0]]),
            node("reshape", "__nop", 1, [[1, 1, 0]]),
        ],
        "arg_nodes": [0],
        "heads": [[2, 0, 0], [1, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[2, 4], [1, 4], [1, 4], [4]]],
            "dltype": ["list_str", ["float32"] * 4],
        },
        "node_row_ptr": [0, 1, 3, 4],
    }


def test_entries_become_tensors(graph):
    read = read_graph_json(json.dumps(graph))
    assert read.inputs == (("x", 0),)
    assert read.outputs == (3, 1)
    assert read.tensors[2] == GraphTensor((1, 4), "float32")
    split, reshape = read.operators
    assert (split.kernel, split.inputs, split.outputs) == ("fused_split", (0,), (1, 2))
    assert (reshape.kernel, reshape.inputs, reshape.outputs) == (None, (2,), (3,))


def test_copies_between_devices_are_refused(graph):
    graph["nodes"][1]["attrs"]["func_name"] = "__copy"
    with pytest.raises(PlanError, match="node 1 .'split'. copies between devices"):
        read_graph_json(json.dumps(graph))


def test_control_dependencies_are_refused(graph):
    graph["nodes"][2]["control_deps"] = [1]
    with pytest.raises(PlanError, match="node 2 .'reshape'.*control"):
        read_graph_json(json.dumps(graph))


@pytest.mark.parametrize("missing", ["nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"])
def test_missing_parts_are_named(graph, missing):
    del graph[missing]
    with pytest.raises(PlanError, match=missing):
        read_graph_json(json.dumps(graph))


@pytest.mark.parametrize("text", ["", "[]", "7", "{"])
def test_garbage_is_refused(text):
    with pytest.raises(PlanError, match="not the JSON of a TVM graph executor"):
        read_graph_json(text)
