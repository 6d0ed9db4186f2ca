"""TVM's converters of ONNX, node by node, over inputs whose shapes are written down.

A node of the normal form (:mod:`tvm_ios.onnx.normal_form`) says the shapes of all that it reads. So
each is converted by itself, over variables of these shapes, whose types are inferred in no time;
what comes out is checked against the shapes that onnx gives it, and put in the place of variables.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import ModuleType
from typing import Any

import onnx
import onnx_ir as ir
import tvm
from tvm import relay
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import NORMAL_OPSET
from tvm_ios.onnx.normal_form import described
from tvm_ios.onnx.values import array_of, dtype_of, extents, is_static
from tvm_ios.relay.context import reason_of
from tvm_ios.relay.diagnostics import collected_diagnostics
from tvm_ios.relay.frontends.onnx.converters import CONVERTERS
from tvm_ios.relay.frontends.onnx.known_operators import require_known, require_read
from tvm_ios.relay.frontends.onnx.old_converters import CONVERTERS as OLD
from tvm_ios.relay.frontends.onnx.read_parts import ReadAttributes, ReadInputs

__all__ = ["import_onnx"]

_LENDING = Lock()
"""Held where modules, converters and filters of warnings are others, for the whole process."""


def import_onnx(name: str, model: ir.Model) -> tvm.IRModule:
    """A module whose constants are the model's weights, and no parameters.

    ``name`` is the file, with which messages begin. The model is in the normal form.
    """
    with _LENDING, _onnx_mapping(), _own_converters(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = frontend.GraphProto({}, "float32")
        graph.opset = NORMAL_OPSET
        with graph, collected_diagnostics() as said:
            return _Import(name, model.graph, graph, said).module()


class _Import:
    """A graph on its way to Relay."""

    def __init__(self, name: str, graph: ir.Graph, scope: Any, said: list[str]) -> None:
        self._name = name
        self._graph = graph
        self._scope = scope
        self._said = said
        self._made: dict[ir.Value, relay.Expr] = {}
        """Each value that was computed, as an expression over the inputs."""

    def module(self) -> tvm.IRModule:
        """The whole graph as a function of its inputs."""
        inputs = []
        for value in self._graph.inputs:
            with self._telling_of(f"input {value.name!r}"):
                self._made[value] = _variable(value)
                inputs.append(self._made[value])
        for node in self._graph:
            with self._telling_of(described(node)):
                self._convert(node)
        outputs = [self._made[value] for value in self._graph.outputs]
        body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
        return tvm.IRModule.from_expr(relay.Function(inputs, body))

    def _convert(self, node: ir.Node) -> None:
        require_known(node)
        places: dict[relay.Var, relay.Expr] = {}
        inputs = [None if value is None else self._place(value, places) for value in node.inputs]
        convert = CONVERTERS.get(node.op_type)
        converted = self._by_tvm(node, inputs) if convert is None else convert(node, inputs)
        whole = converted.astuple() if isinstance(converted, relay.TupleWrapper) else converted
        typed = relay.transform.InferTypeLocal(whole)
        several = isinstance(typed, tvm.ir.TupleType)
        types = typed.fields if several else [typed]
        bound = relay.bind(whole, places)
        for place, value in enumerate(node.outputs):
            if value.name:
                if place >= len(types):
                    raise ModelError(f"gives no {value.name!r} in TVM's importer")
                _require_type(value, types[place])
                self._made[value] = relay.TupleGetItem(bound, place) if several else bound

    def _by_tvm(self, node: ir.Node, inputs: list[Any]) -> Any:
        """What TVM's own converter makes of a node; ModelError where it passes over a part."""
        given, told = ReadInputs(inputs), ReadAttributes(_attributes(node))
        converted = self._scope._convert_operator(  # noqa: SLF001 - TVM has no public one
            node.op_type, given, told, NORMAL_OPSET
        )
        require_read(node, given.unread, told.unread)
        return converted

    def _place(self, value: ir.Value, places: dict[relay.Var, relay.Expr]) -> relay.Expr:
        """What a converter gets for an input: a constant, or a variable of its type."""
        if value.const_value is not None:
            if value not in self._made:
                array = array_of(value.const_value)
                self._made[value] = relay.const(array, str(array.dtype))
            return self._made[value]
        if value not in self._made:
            raise ModelError(f"takes {value.name!r}, which TVM's importer leaves out")
        variable = _variable(value)
        places[variable] = self._made[value]
        return variable

    @contextmanager
    def _telling_of(self, what: str) -> Iterator[None]:
        """Make errors of TVM into one that names the file and what was read."""
        self._said.clear()
        try:
            yield
        except ModelError as error:
            raise ModelError(f"{self._name}: {what} {error}") from error
        # TVM's converters fail in whatever way they can: KeyError, AssertionError, TVMError …
        except Exception as error:
            said = self._said[0] if self._said else f"{type(error).__name__}: {reason_of(error)}"
            raise ModelError(
                f"{self._name}: {what} cannot be read by TVM's importer ({said}); save the "
                "model without it, or in another opset"
            ) from error


def _variable(value: ir.Value) -> relay.Var:
    if not is_static(value):
        raise ModelError(f"has {value.name!r} of type {value.type} and shape {value.shape}")
    return relay.var(str(value.name), shape=extents(value), dtype=str(dtype_of(value)))


def _attributes(node: ir.Node) -> dict[str, Any]:
    """Attributes by name, as TVM's converters take them."""
    return {name: _plain(attribute) for name, attribute in node.attributes.items()}


def _plain(attribute: ir.Attr) -> Any:
    if attribute.type is ir.AttributeType.STRING:
        return attribute.as_string().encode()
    if attribute.type is ir.AttributeType.TENSOR:
        return ir.to_proto(attribute.as_tensor())
    return attribute.value


def _require_type(value: ir.Value, made: Any) -> None:
    """Refuse a result that is not what onnx says of it."""
    if not is_static(value):
        return
    found = [int(extent) for extent in made.shape]
    if found != list(extents(value)) or made.dtype != str(dtype_of(value)):
        raise ModelError(
            f"gives {made.dtype}{found} in TVM's importer, and {dtype_of(value)}"
            f"{list(extents(value))} in ONNX"
        )


@contextmanager
def _own_converters() -> Iterator[None]:
    """Have TVM's importer use ours where its own are wrong, and look its own up once."""
    original = frontend._get_convert_map  # noqa: SLF001 - there is no other door
    known = {**original(NORMAL_OPSET), **OLD}
    frontend._get_convert_map = lambda _: known  # noqa: SLF001
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
