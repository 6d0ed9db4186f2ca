"""Types of one node's outputs, as onnx infers them, and their values where inputs are constant."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.reference.ops
import onnx.shape_inference
import onnx_ir as ir

from tvm_ios.onnx.values import array_of, dtype_of, extents, is_static

__all__ = ["evaluated", "infer", "schema_of", "type_of"]

_SMALL = 1024
"""Numbers of a constant that shapes may depend on; larger ones are not handed to onnx."""
_MOST_FOLDED_BYTES = 2**26
"""Bytes above which a constant is left for the run, unless what it is made of is as large."""


@cache
def schema_of(domain: str, op_type: str, version: int) -> onnx.defs.OpSchema | None:
    """ONNX's own definition of an operator as of an opset; None if there is none."""
    try:
        return onnx.defs.get_schema(op_type, version, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None


def infer(node: ir.Node, schema: onnx.defs.OpSchema) -> None:
    """Write down types and shapes of a node's outputs, as far as onnx infers them.

    It infers none of a deprecated operator. Raises ``onnx.shape_inference.InferenceError`` for a
    node that cannot be.
    """
    if schema.deprecated:
        return
    inputs = {str(value.name): value for value in node.inputs if value is not None}
    found = onnx.shape_inference.infer_node_outputs(
        schema,
        ir.serde.serialize_node(node),
        {name: type_of(value) for name, value in inputs.items()},
        {
            name: ir.serde.serialize_tensor(_in_memory(value.const_value))
            for name, value in inputs.items()
            if value.const_value is not None and value.const_value.size <= _SMALL
        },
        opset_imports=[onnx.helper.make_opsetid(schema.domain, schema.since_version)],
    )
    for output in node.outputs:
        if output.name in found:
            output.type = ir.serde.deserialize_type_proto_for_type(found[output.name])
            output.shape = ir.serde.deserialize_type_proto_for_shape(found[output.name])


def evaluated(node: ir.Node, version: int) -> list[np.ndarray] | None:
    """Outputs of a node all of whose inputs are constants, by onnx's reference.

    None where a value is not constant, would be too large, or where the reference does not know.
    Extents that only values tell may come out of it.
    """
    tensors = [None if value is None else value.const_value for value in node.inputs]
    if any(value is not None and value.const_value is None for value in node.inputs):
        return None
    given = max((tensor.nbytes for tensor in tensors if tensor is not None), default=0)
    most = max(given, _MOST_FOLDED_BYTES)
    known = [output for output in node.outputs if is_static(output)]
    if any(_bytes_of(output) > most for output in known):
        return None
    try:
        found = onnx.reference.ops.load_op(node.domain, node.op_type, version).eval(
            *(None if tensor is None else array_of(tensor) for tensor in tensors),
            n_outputs=len(node.outputs),
            **{name: _plain(attribute) for name, attribute in node.attributes.items()},
        )
    except Exception:  # noqa: BLE001 - the reference fails in whatever way it can, and may
        return None
    arrays = list(found) if isinstance(found, tuple) else [found]
    arrays = [np.asarray(array) for array in arrays]
    for array, output in zip(arrays, node.outputs, strict=False):
        if output in known and (array.shape, array.dtype) != (extents(output), dtype_of(output)):
            return None
    return arrays


def _in_memory(tensor: Any) -> Any:
    """A tensor as it is, but not in a file of its own, where onnx does not look."""
    external = isinstance(tensor, ir.ExternalTensor)
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype) if external else tensor


def _bytes_of(value: ir.Value) -> int:
    return int(np.prod(extents(value), dtype=np.int64)) * dtype_of(value).itemsize


def type_of(value: ir.Value) -> onnx.TypeProto:
    """The type of a value; one that is not known says nothing."""
    made = onnx.TypeProto() if value.type is None else ir.serde.serialize_type(value.type)
    if value.shape is not None and value.type is not None:
        ir.serde.serialize_shape_into(made, value.shape)
    return made


def _plain(attribute: ir.Attr) -> Any:
    if attribute.type is ir.AttributeType.TENSOR:
        return ir.serde.serialize_tensor(attribute.value)
    return attribute.value
