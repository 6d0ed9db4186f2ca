"""Reads stock TVM graph JSON into operators and tensors: the first step of lowering. No TVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tvm_ios.errors import PlanError
from tvm_ios.runtime.data_type import named_as_arrays

__all__ = ["GraphOperator", "GraphTensor", "OperatorJson", "operator_alone", "read_graph_json"]


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """One entry of the graph: an input, a parameter, or an output of an operator."""

    shape: tuple[int, ...]
    dtype: str
    """As arrays name it: truth values are ``bool``, where the graph says ``uint1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOperator:
    """One ``tvm_op`` node."""

    name: str
    kernel: str | None
    """Symbol of the kernel; None for a node that only renames its input (``__nop``)."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flatten: bool
    """True where the kernel takes every argument as a one-dimensional tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorJson:
    """A graph in terms of tensors (entries) and operators, both in node order."""

    tensors: tuple[GraphTensor, ...]
    operators: tuple[GraphOperator, ...]
    inputs: tuple[tuple[str, int], ...]
    """Name and tensor of every input and parameter, in the order of ``arg_nodes``."""
    outputs: tuple[int, ...]


def read_graph_json(text: str) -> OperatorJson:
    """Parse graph JSON as ``relay.build`` writes it.

    Raises
    ------
    PlanError
        If a field is missing or a node is of a kind no kernel library can run.
    """
    try:
        return _read(json.loads(text))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise PlanError(
            f"not the JSON of a TVM graph executor: {type(error).__name__}: {error}; "
            "pass what factory.get_graph_json() returns"
        ) from error


def operator_alone(text: str, index: int) -> str:
    """The JSON of a graph of one operator of another graph, all it reads being inputs.

    Parameters
    ----------
    text
        Graph JSON as ``relay.build`` writes it.
    index
        Position among the ``tvm_op`` nodes.
    """
    data = json.loads(text)
    row, attributes = data["node_row_ptr"], data["attrs"]
    number = [n for n, node in enumerate(data["nodes"]) if node["op"] == "tvm_op"][index]
    node = data["nodes"][number]
    read = [row[entry[0]] + entry[1] for entry in node["inputs"]]
    sources = list(dict.fromkeys(read))
    outputs = int(node["attrs"]["num_outputs"])
    entries = [*sources, *range(row[number], row[number] + outputs)]
    count = len(sources)
    inputs = [
        {"op": "null", "name": f"input_{position}", "inputs": []} for position in range(count)
    ]
    alone = {**node, "inputs": [[sources.index(entry), 0, 0] for entry in read]}
    return json.dumps(
        {
            "nodes": [*inputs, alone],
            "arg_nodes": list(range(count)),
            "heads": [[count, output, 0] for output in range(outputs)],
            "attrs": {
                name: [attributes[name][0], [attributes[name][1][entry] for entry in entries]]
                for name in ("shape", "dltype")
            },
            "node_row_ptr": [*range(count + 1), count + outputs],
        }
    )


def _read(data: dict[str, Any]) -> OperatorJson:
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
    return OperatorJson(
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
