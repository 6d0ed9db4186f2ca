"""Relay of ONNX, node by node, over inputs whose shapes are written down.

A node of the normal form (:mod:`tvm_ios.onnx.normal_form`) says the shapes of all that it reads. So
each is converted by itself, over variables of these shapes, whose types are inferred in no time;
what comes out is checked against the shapes that onnx gives it, and put in the place of variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import onnx
import onnx_ir as ir
import tvm
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import NORMAL_OPSET
from tvm_ios.onnx.inference import schema_of
from tvm_ios.onnx.normal_form import DRAWN, REFUSED, STANDARD, described
from tvm_ios.onnx.values import array_of, dtype_of, extents, is_static
from tvm_ios.relay.context import reason_of
from tvm_ios.relay.diagnostics import collected_diagnostics
from tvm_ios.relay.frontends.onnx.converters import CONVERTERS
from tvm_ios.relay.transforms.quantised.whole_numbers import in_numbers

__all__ = ["import_onnx", "refusals"]

_LENDING = Lock()
"""Held where TVM's messages go to a list, for the whole process."""
_TYPES = frozenset(
    {"bool", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Data types of ONNX that Relay computes in; in the normal form, bfloat16 is float32."""
_DRAWS = (
    "draws numbers, and compiled code would draw the same in each run; make them an input of the "
    "model"
)
_BY_VALUE = (
    "gives a result whose shape only values tell, and compiled code has static shapes; end the "
    "model before it"
)
_REASONS = {
    **dict.fromkeys(DRAWN, _DRAWS),
    "Det": "has more than three rows; give fewer, or save the model without it",
    "If": "takes one of two branches by a value that only the run tells; make it a constant",
    "Loop": "is a loop whose length only the run tells; give its number of rounds as a constant",
    "Scan": "is a loop whose length only the run tells; give its inputs static shapes",
}
"""Reasons why straight-line code of static shapes has no such node, by operator."""


def import_onnx(name: str, model: ir.Model) -> tvm.IRModule:
    """A module whose constants are the model's weights, and no parameters.

    ``name`` is the file, with which messages begin. The model is in the normal form.
    """
    with _LENDING, collected_diagnostics() as said:
        return _Import(name, model.graph, said).module()


def refusals(name: str, model: ir.Model) -> dict[ir.Node, str]:
    """Nodes that cannot be converted, and messages that name them, but not the file.

    Those behind them are not looked at.
    """
    with _LENDING, collected_diagnostics() as said:
        return _Import(name, model.graph, said).refusals()


class _Import:
    """A graph on its way to Relay."""

    def __init__(self, name: str, graph: ir.Graph, said: list[str]) -> None:
        self._name = name
        self._graph = graph
        self._said = said
        self._made: dict[ir.Value, relay.Expr] = {}
        """Relay's expression, over the inputs of the graph, by value of the ONNX graph."""

    def module(self) -> tvm.IRModule:
        """The whole graph as a function of its inputs."""
        inputs = self._inputs()
        for node in self._graph:
            with self._telling_of(described(node)):
                self._convert(node)
        outputs = [self._made[value] for value in self._graph.outputs]
        body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
        return in_numbers(tvm.IRModule.from_expr(relay.Function(inputs, body)))

    def refusals(self) -> dict[ir.Node, str]:
        """Nodes that cannot be converted, all of whose inputs can, and the messages on them."""
        found = {}
        self._inputs()
        for node in self._graph:
            if all(map(self._is_made, node.inputs)):
                try:
                    with self._telling_of(described(node)):
                        self._convert(node)
                except ModelError as error:
                    found[node] = str(error).removeprefix(f"{self._name}: ")
        return found

    def _is_made(self, value: ir.Value | None) -> bool:
        return value is None or value in self._made or value.const_value is not None

    def _inputs(self) -> list[relay.Var]:
        for value in self._graph.inputs:
            with self._telling_of(f"input {value.name!r}"):
                self._made[value] = _variable(value)
        return [self._made[value] for value in self._graph.inputs]

    def _convert(self, node: ir.Node) -> None:
        _require_known(node)
        places: dict[relay.Var, relay.Expr] = {}
        inputs = [None if value is None else self._place(value, places) for value in node.inputs]
        for value in node.outputs:
            _require_relay_type(value)
        converted = CONVERTERS[node.op_type](node, inputs)
        whole = converted.astuple() if isinstance(converted, relay.TupleWrapper) else converted
        typed = relay.transform.InferTypeLocal(whole)
        several = isinstance(typed, tvm.ir.TupleType)
        types = typed.fields if several else [typed]
        bound = relay.bind(whole, places)
        for place, value in enumerate(node.outputs):
            if value.name:
                if place >= len(types):
                    raise ModelError(f"gives no {value.name!r}")
                _require_type(value, types[place])
                self._made[value] = relay.TupleGetItem(bound, place) if several else bound

    def _place(self, value: ir.Value, places: dict[relay.Var, relay.Expr]) -> relay.Expr:
        """Relay's constant for a value, or a new variable of its type, added to ``places``."""
        if value.const_value is not None:
            if value not in self._made:
                _require_relay_type(value)
                array = array_of(value.const_value)
                self._made[value] = relay.const(array, str(array.dtype))
            return self._made[value]
        if value not in self._made:
            raise ModelError(f"takes {value.name!r}, which is not computed")
        variable = _variable(value)
        places[variable] = self._made[value]
        return variable

    @contextmanager
    def _telling_of(self, what: str) -> Iterator[None]:
        """Make errors of TVM into one that names the file and what was read; note it in others."""
        self._said.clear()
        try:
            yield
        except ModelError as error:
            raise ModelError(f"{self._name}: {what} {error}") from error
        except tvm.TVMError as error:
            said = self._said[0] if self._said else f"{type(error).__name__}: {reason_of(error)}"
            raise ModelError(
                f"{self._name}: {what} cannot be written in Relay ({said}); save the model "
                "without it, or in another opset"
            ) from error
        except Exception as error:
            error.add_note(f"{self._name}: {what}")
            raise


def _variable(value: ir.Value) -> relay.Var:
    if not is_static(value):
        raise ModelError(f"has {value.name!r} of type {value.type} and shape {value.shape}")
    _require_relay_type(value)
    return relay.Var(str(value.name), _relay_type(extents(value), str(dtype_of(value))))


@cache
def _relay_type(shape: tuple[int, ...], dtype: str) -> relay.TensorType:
    """Relay's type of a tensor; many values have the same, and each extent is a call of TVM."""
    return relay.TensorType(shape, dtype)


def _require_relay_type(value: ir.Value) -> None:
    """Refuse a type that Relay lacks, or gets wrong: text, several numbers a byte."""
    if value.dtype is not None and str(dtype_of(value)) not in _TYPES:
        raise ModelError(
            f"has {value.name!r} of the type {value.dtype.name}, which Relay lacks "
            "or gets wrong; give another"
        )


def _require_type(value: ir.Value, made: Any) -> None:
    """Refuse a result that is not what onnx says of it."""
    if not is_static(value):
        return
    shape, dtype = extents(value), str(dtype_of(value))
    if not tvm.ir.structural_equal(made, _relay_type(shape, dtype)):
        found = [int(extent) for extent in made.shape]
        raise ModelError(
            f"gives {made.dtype}{found} in Relay, and {dtype}{list(shape)} in ONNX; leave it out"
        )


def _require_known(node: ir.Node) -> None:
    """Refuse a node that no converter is for, with the nearest thing that works."""
    if REFUSED in node.meta:
        raise ModelError(node.meta[REFUSED])
    if node.domain not in STANDARD:
        raise ModelError(
            f"is of the domain {node.domain!r}, which is not known; save the model with operators "
            "of ONNX alone"
        )
    if node.op_type in _REASONS:
        raise ModelError(_REASONS[node.op_type])
    if any(isinstance(value.type, (ir.OptionalType, ir.SequenceType)) for value in node.outputs):
        raise ModelError("gives a sequence, or what is optional; end the model before it")
    if not all(is_static(value) for value in node.outputs if value.name):
        raise ModelError(_BY_VALUE)
    if node.op_type not in CONVERTERS:
        raise ModelError("is an operator that is not known; save the model without it")
    newest = onnx.defs.onnx_opset_version()
    schemas = [schema_of(node.domain, node.op_type, each) for each in (NORMAL_OPSET, newest)]
    for name in node.attributes:
        if not any(schema is not None and name in schema.attributes for schema in schemas):
            raise ModelError(f"has the attribute {name}, of an older form; save it in opset 21")
