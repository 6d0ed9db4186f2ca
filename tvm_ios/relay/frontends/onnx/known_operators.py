"""Operators of ONNX that TVM's importer knows, gets wrong, or has to have written out by others."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Any

import onnx
import onnx.inliner
import onnx.shape_inference
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError

__all__ = ["STANDARD", "expanded", "require_known", "require_read"]

STANDARD = ("", "ai.onnx")
"""Domains of the operators of ONNX itself."""
OTHERS = ("com.microsoft", "org.pytorch.aten", "ai.onnx.ml")
"""Domains of other operators, of which TVM's importer goes by the names alone."""
NOT_OF_ONNX = ("Attention",)
"""Operators of ONNX whose name TVM's importer takes for another domain's operator."""
WRITTEN_OUT = ("DynamicQuantizeLinear", "Gelu")
"""Functions of ONNX of which TVM's importer knows a form only, or which it gets wrong."""


WRONG = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "RoiAlign",
)
"""Operators that come out wrong; what is drawn would be a constant, the same in each run."""
WRONG_VALUES = {
    "BatchNormalization": ("training_mode", 1),
    "SplitToSequence": ("keepdims", 0),
}
"""An attribute by operator, and its value that comes out wrong."""
REDUNDANT = ("hidden_size",)
"""Attributes that shapes of weights tell as well."""


def expanded(model: Any, opset: int) -> Any:
    """The model, or a copy in which functions that the importer does not know are written out.

    ONNX defines such operators (its functions) by simpler ones.
    """
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    known = frontend._get_convert_map(opset)  # noqa: SLF001 - there is no other list
    functions = {
        node.op_type
        for node in model.graph.node
        if node.domain in STANDARD
        and (node.op_type not in known or node.op_type in (*WRITTEN_OUT, *NOT_OF_ONNX))
        and node.op_type not in WRONG
        and _is_function(node.op_type, opset)
    }
    if not functions:
        return model
    for node in model.graph.node:
        if node.domain in STANDARD and node.op_type in functions:
            _add_defaults(node, opset)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for each in model.graph.initializer:  # functions ask for types, and not for those of weights
        known_type = onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        model.graph.value_info.append(known_type)
    ids = [(domain, name) for name in sorted(functions) for domain in STANDARD]
    try:
        return onnx.inliner.inline_selected_functions(model, ids, inline_schema_functions=True)
    except RuntimeError:  # a function whose inputs have types that onnx does not infer
        return model  # its nodes are refused by name


def require_known(node: Any, opset: int, values: Container[str]) -> None:
    """Refuse a node (``onnx.NodeProto``) that the importer does not know.

    ``values`` are the names of the tensors that were computed so far.
    """
    known = node.op_type in frontend._get_convert_map(opset)  # noqa: SLF001
    if node.domain in STANDARD:
        known &= node.op_type not in NOT_OF_ONNX
    elif node.domain in OTHERS:
        known &= not onnx.defs.has(node.op_type) or node.op_type in NOT_OF_ONNX
    else:
        raise ModelError(f"is of the domain {node.domain!r}, which TVM's importer does not know")
    if not known:
        raise ModelError("is an operator that TVM's importer does not know")
    name, value = WRONG_VALUES.get(node.op_type, ("", None))
    if node.op_type in WRONG or any(
        each.name == name and each.i == value for each in node.attribute
    ):
        form = f" with {name}={value}" if name else ""
        raise ModelError(f"is an operator that TVM's importer gets wrong{form}")
    for name in node.input:
        if name and name not in values:
            raise ModelError(
                f"takes {name!r}, an output of another node that TVM's importer leaves out"
            )


def require_read(node: Any, inputs: Collection[int], attributes: Collection[str]) -> None:
    """Refuse a node of which a converter has passed over a part that counts.

    ``inputs`` and ``attributes`` are the places and names that nobody has read.
    """
    for place in sorted(inputs):
        raise ModelError(f"has the input {node.input[place]!r}, which TVM's importer passes over")
    for attribute in node.attribute:
        if attribute.name in REDUNDANT:
            continue
        if attribute.name in attributes and not _is_default(node, attribute):
            value = onnx.helper.get_attribute_value(attribute)
            raise ModelError(
                f"has the attribute {attribute.name}={value!r}, which TVM's importer passes over"
            )


def _is_default(node: Any, attribute: Any) -> bool:
    """Whether an attribute says what holds without it, too."""
    if node.domain not in STANDARD or not onnx.defs.has(node.op_type):
        return False
    usual = onnx.defs.get_schema(node.op_type).attributes.get(attribute.name)
    if usual is None or usual.default_value.type == onnx.AttributeProto.UNDEFINED:
        return False
    value = onnx.helper.get_attribute_value
    return bool(value(attribute) == value(usual.default_value))


def _add_defaults(node: Any, opset: int) -> None:
    """Write down what holds where an attribute is left out: the inliner does not know."""
    there = {attribute.name for attribute in node.attribute}
    for name, known in onnx.defs.get_schema(node.op_type, opset).attributes.items():
        usual = known.default_value
        if name not in there and usual.type != onnx.AttributeProto.UNDEFINED:
            node.attribute.append(usual)


def _is_function(name: str, opset: int) -> bool:
    try:
        schema = onnx.defs.get_schema(name, opset)
    except onnx.defs.SchemaError:
        return False
    written: Any = schema  # its type stubs lack these
    return bool(written.has_function or written.has_context_dependent_function)
