"""TVM's importer of ONNX, node by node, so that an error names the node it came from."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from types import ModuleType, SimpleNamespace
from typing import Any

import onnx
import tvm
from tvm import relay
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError
from tvm_ios.relay.context import reason_of
from tvm_ios.relay.diagnostics import collected_diagnostics
from tvm_ios.relay.frontends.onnx.converters import CONVERTERS
from tvm_ios.relay.frontends.onnx.known_operators import (
    STANDARD,
    expanded,
    require_known,
    require_read,
)
from tvm_ios.relay.frontends.onnx.read_parts import ReadAttributes, ReadInputs
from tvm_ios.relay.obstacles import find_obstacles, is_dynamic, require_sizes

__all__ = ["import_onnx"]

_LENDING = Lock()
"""Held where modules, converters and filters of warnings are others, for the whole process."""


def import_onnx(
    name: str, model: Any, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]:
    """A module whose constants are the model's weights, and no parameters.

    Parameters
    ----------
    name
        The file; messages begin with it.
    model
        An ``onnx.ModelProto`` that onnx's checker accepts; nodes without a name get one from TVM.
    shapes
        The shape of every input that is no parameter.
    """
    opset = next((each.version for each in model.opset_import if each.domain in STANDARD), 1)
    model = expanded(model, opset)
    graph = _NamedGraph(name, opset, shapes)
    with _LENDING, _onnx_mapping(), _own_converters(), warnings.catch_warnings(), graph:
        warnings.simplefilter("ignore")
        module, params = graph.from_onnx(model.graph, opset)
        with graph.telling_of("the model"):
            module = relay.transform.DynamicToStatic()(module)
            obstacles = find_obstacles(module)
    if obstacles:
        raise ModelError(f"{name}: {graph.first_dynamic or obstacles[0].reason}")
    return module, dict(params)


class _NamedGraph(frontend.GraphProto):  # type: ignore[misc]
    """TVM's graph under construction; what fails says which node it was."""

    def __init__(self, name: str, opset: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__(dict(shapes), "float32", freeze_params=True, op_type_dict={})
        self._name = name
        self._opset = opset
        self._node: Any = None
        self.first_dynamic = ""
        """Sentence on the first node whose result has a shape that only values tell; or empty."""

    def _parse_graph_initializers(self, graph: Any) -> None:
        for tensor in graph.initializer:
            with self.telling_of(f"weight {tensor.name!r}"):
                super()._parse_graph_initializers(SimpleNamespace(initializer=(tensor,)))

    def _parse_graph_input(self, graph: Any) -> None:
        for value in graph.input:
            with self.telling_of(f"input {value.name!r}"):
                super()._parse_graph_input(SimpleNamespace(input=(value,)))

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Told node by node, with the reason."""

    def _construct_nodes(self, graph: Any) -> None:
        for node in graph.node:
            what = _described(node)  # before TVM gives it a name
            with self.telling_of(what):
                require_known(node, self._opset, self._nodes)
                self._node = node
                super()._construct_nodes(SimpleNamespace(node=(node,)))
                self._infer(node, what)
        for output in graph.output:
            if output.name not in self._nodes:
                with self.telling_of(f"output {output.name!r}"):
                    raise ModelError("is one that TVM's importer leaves out")

    def _infer(self, node: Any, what: str) -> None:
        """Infer the types of what a node computes, which is where most mistakes show."""
        for output in node.output:
            if output not in self._nodes:
                continue
            type_ = relay.transform.InferTypeLocal(self._nodes[output])
            require_sizes("makes", type_)
            if not self.first_dynamic and is_dynamic(type_):
                self.first_dynamic = (
                    f"{what} gives a result whose shape only values tell, "
                    f"{_shape_of(type_)}; models have static shapes here"
                )

    def inside(self) -> _NamedGraph:
        """A graph for a subgraph of a node, which sees what was computed so far."""
        # Whoever reads an input first gives it a place in the source, and so makes it another.
        self._set_parameter_span(SimpleNamespace(input=tuple(self._inputs)), "inputs")
        inner = _NamedGraph(self._name, self._opset, self._shape)
        inner._nodes = dict(self._nodes)
        return inner

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        """Convert a node, and refuse it where a part of it was passed over."""
        node = self._node
        given, told = ReadInputs(inputs), ReadAttributes(attrs)
        value = super()._convert_operator(op_name, given, told, opset)
        require_read(node, given.unread, told.unread)
        if all(isinstance(each, relay.Constant) for each in inputs if each is not None):
            made = value.astuple() if isinstance(value, relay.TupleWrapper) else value
            require_sizes("makes", relay.transform.InferTypeLocal(made))  # before it is folded
        return value

    @contextmanager
    def telling_of(self, what: str) -> Iterator[None]:
        """Make errors of TVM into one that names the file and what was read."""
        with collected_diagnostics() as found:
            try:
                yield
            except ModelError as error:
                raise ModelError(f"{self._name}: {what} {error}") from error
            # TVM's converters fail in whatever way they can: KeyError, AssertionError, TVMError …
            except Exception as error:
                said = found[0] if found else f"{type(error).__name__}: {reason_of(error)}"
                raise ModelError(
                    f"{self._name}: {what} cannot be read by TVM's importer ({said}); save the "
                    "model without it, or in another opset"
                ) from error


def _described(node: Any) -> str:
    """The node's name and operator; its first output where it has no name."""
    domain = f"{node.domain}." if node.domain not in STANDARD else ""
    if node.name:
        return f"node {node.name!r} ({domain}{node.op_type})"
    output = next((each for each in node.output if each), "")
    return f"the node that makes {output!r} ({domain}{node.op_type})"


def _shape_of(type_: Any) -> str:
    if isinstance(type_, tvm.ir.TensorType):
        return str([int(e) if isinstance(e, tvm.tir.IntImm) else "?" for e in type_.shape])
    return str(type_)


@contextmanager
def _own_converters() -> Iterator[None]:
    """Have TVM's importer, subgraphs included, use ours where its own are wrong."""
    original = frontend._get_convert_map  # noqa: SLF001 - there is no other door
    frontend._get_convert_map = lambda version: {**original(version), **CONVERTERS}  # noqa: SLF001
    try:
        yield
    finally:
        frontend._get_convert_map = original  # noqa: SLF001


_PACKED = ("FLOAT4E2M1", "INT2", "INT4", "UINT2", "UINT4")


class _Types(dict[int, Any]):
    """NumPy's data types by ONNX's."""

    def __getitem__(self, kind: int) -> Any:
        dtype = super().__getitem__(kind)
        name = onnx.TensorProto.DataType.Name(kind)
        if name in _PACKED:
            raise ModelError(f"has the type {name}, of several numbers a byte; give it as INT8")
        return dtype


@contextmanager
def _onnx_mapping() -> Iterator[None]:
    """Lend TVM's importer a module that onnx 1.15 deprecated and later ones lack."""
    name = "onnx.mapping"
    if importlib.util.find_spec(name) is not None:
        yield
        return
    lent = ModuleType(name)
    # Number 0 is UNDEFINED, which has no data type.
    kinds = [kind for kind in onnx.TensorProto.DataType.values() if kind]
    lent.TENSOR_TYPE_TO_NP_TYPE = _Types(  # type: ignore[attr-defined]
        (kind, onnx.helper.tensor_dtype_to_np_dtype(kind)) for kind in kinds
    )
    sys.modules[name] = lent
    try:
        yield
    finally:
        del sys.modules[name]
