"""Operators of ONNX that TVM's importer knows, gets wrong, or has to have written out by others."""

from __future__ import annotations

from collections.abc import Collection

import onnx
import onnx_ir as ir
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import NORMAL_OPSET
from tvm_ios.onnx.inference import schema_of

__all__ = ["require_known", "require_read"]

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


def require_known(node: ir.Node) -> None:
    """Refuse a node that the importer does not know, or of which it is known to be wrong."""
    known = node.op_type in frontend._get_convert_map(0)  # noqa: SLF001 - there is no other list
    if node.domain not in STANDARD:
        raise ModelError(f"is of the domain {node.domain!r}, which TVM's importer does not know")
    if not known or node.op_type in NOT_OF_ONNX:
        raise ModelError("is an operator that TVM's importer does not know")
    if node.op_type in WRONG:
        raise ModelError("is an operator that TVM's importer gets wrong")


def require_read(node: ir.Node, inputs: Collection[int], attributes: Collection[str]) -> None:
    """Refuse a node of which a converter has passed over a part that counts.

    ``inputs`` and ``attributes`` are the places and names that nobody has read.
    """
    for place in sorted(inputs):
        value = node.inputs[place]
        assert value is not None
        raise ModelError(f"has the input {value.name!r}, which TVM's importer passes over")
    for attribute in node.attributes.values():
        if attribute.name in attributes and not _is_default(node, attribute):
            raise ModelError(
                f"has the attribute {attribute.name}={attribute.value!r}, which TVM's importer "
                "passes over"
            )


def _is_default(node: ir.Node, attribute: ir.Attr) -> bool:
    """Whether an attribute says what holds without it, too."""
    schema = schema_of(node.domain, node.op_type, NORMAL_OPSET)
    usual = None if schema is None else schema.attributes.get(attribute.name)
    if usual is None or usual.default_value.type == onnx.AttributeProto.UNDEFINED:
        return False
    return bool(ir.serde.deserialize_attribute(usual.default_value).value == attribute.value)
