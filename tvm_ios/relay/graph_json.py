"""Reader of the graph executor's JSON that ``relay.build`` writes, into a graph of kernels."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import named_as_arrays
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.runtime.artifact.factory import with_graph

__all__ = ["read_graph_json", "with_own_constant_names"]


def with_own_constant_names(factory: GraphExecutorFactoryModule) -> GraphExecutorFactoryModule:
    """Factory with names for constants that no input has; inputs keep their names.

    TVM names constants ``p0``, ``p1`` and so on, whatever inputs are named.
    """
    graph = json.loads(factory.get_graph_json())
    nodes = [graph["nodes"][number] for number in graph["arg_nodes"]]
    names = Counter(node["name"] for node in nodes)
    params = dict(factory.get_params())
    shared = [name for name in params if names[name] > 1]
    if not shared:
        return factory
    constants = {node["name"]: node for node in nodes}  # they come after inputs
    free = (own for own in map("p{}".format, itertools.count()) if own not in names)
    for name, own in zip(shared, free, strict=False):
        constants[name]["name"] = own
        params[own] = params.pop(name)
    return with_graph(factory, graph, params)


def read_graph_json(text: str) -> KernelGraph:
    """Graph of kernels: its operators are the ``tvm_op`` nodes, its tensors the entries."""
    try:
        return _read(json.loads(text))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise PlanError(
            f"not the JSON of a TVM graph executor: {type(error).__name__}: {error}; "
            "pass what factory.get_graph_json() returns"
        ) from error


def _read(data: dict[str, Any]) -> KernelGraph:
    row = data["node_row_ptr"]
    nodes = data["nodes"]
    shapes, dtypes = data["attrs"]["shape"][1], data["attrs"]["dltype"][1]
    operators = []
    for number, node in enumerate(nodes):
        if node["op"] == "null":
            continue
        if node["op"] != "tvm_op" or node.get("control_deps"):
            raise PlanError(
                f"graph node {number} ({node['name']!r}) is of kind {node['op']!r} with control "
                f"dependencies {node.get('control_deps', [])}; only plain tvm_op nodes can be run"
            )
        operators.append(_read_operator(number, node, row))
    return KernelGraph(
        tensors=tuple(
            GraphTensor(tuple(int(extent) for extent in shape), named_as_arrays(dtype))
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ),
        operators=tuple(operators),
        inputs=tuple((nodes[number]["name"], row[number]) for number in data["arg_nodes"]),
        outputs=tuple(row[head[0]] + head[1] for head in data["heads"]),
    )


def _read_operator(number: int, node: dict[str, Any], row: list[int]) -> GraphOperator:
    attributes = node["attrs"]
    kernel = attributes["func_name"]
    if kernel == "__copy":
        raise PlanError(
            f"graph node {number} ({node['name']!r}) copies between devices; "
            "build the model for one target"
        )
    first = row[number]
    return GraphOperator(
        name=node["name"],
        kernel=None if kernel == "__nop" else kernel,
        inputs=tuple(row[entry[0]] + entry[1] for entry in node["inputs"]),
        outputs=tuple(range(first, first + int(attributes["num_outputs"]))),
        flatten=attributes.get("flatten_data", "0") == "1",
    )
