"""Rules for sequences and optional values, whose elements are known while nothing runs.

``SequenceConstruct`` and ``SequenceEmpty`` say what a sequence holds, ``Optional`` what is there.
All other operators are resolved by the node that makes their input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.functions import constants_of, inlined
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.unrolling import require_few
from tvm_ios.onnx.values import extents, require_constant, required

__all__ = [
    "concatenated",
    "element",
    "erased",
    "get_element",
    "has_element",
    "inserted",
    "length",
    "mapped",
    "split",
]


@rule("SplitToSequence")
def split(node: ir.Node, op: Builder) -> Outputs:
    """A sequence of parts: of one element each, of one size each, or of sizes that are listed."""
    value = required(node)
    shape = extents(value)
    axis = node.attributes.get_int("axis", 0) % len(shape)
    given = require_constant(node, 1, "sizes of parts")
    extent = shape[axis]
    if given is not None and given.ndim:
        sizes = given.tolist()
    else:
        size = 1 if given is None else int(given)
        sizes = [min(size, extent - begin) for begin in range(0, extent, size)]
    require_few(len(sizes))
    if not sizes:
        assert value.dtype is not None
        return op.op("SequenceEmpty", dtype=int(value.dtype))
    parts = op.ops("Split", value, op.const(sizes), count=len(sizes), axis=axis)
    if given is None and node.attributes.get_int("keepdims", 1) == 0:
        parts = [op.op("Squeeze", part, op.const([axis])) for part in parts]
    return op.op("SequenceConstruct", *parts)


@rule("SequenceInsert")
def inserted(node: ir.Node, op: Builder) -> Outputs:
    """A sequence with one more element."""
    elements = _elements(node)
    place = _place(node, 2, len(elements) + 1, len(elements), len(elements))
    return op.op("SequenceConstruct", *elements[:place], required(node, 1), *elements[place:])


@rule("SequenceErase")
def erased(node: ir.Node, op: Builder) -> Outputs:
    """A sequence with one element less."""
    elements = _elements(node)
    place = _place(node, 1, len(elements), len(elements), len(elements) - 1)
    left = [*elements[:place], *elements[place + 1 :]]
    if left:
        return op.op("SequenceConstruct", *left)
    dtype = elements[0].dtype
    assert dtype is not None
    return op.op("SequenceEmpty", dtype=int(dtype))


@rule("SequenceAt")
def element(node: ir.Node, op: Builder) -> Outputs:
    """An element of a sequence is a value that is known already."""
    del op
    elements = _elements(node)
    return elements[_place(node, 1, len(elements), len(elements), 0)]


@rule("SequenceLength")
def length(node: ir.Node, op: Builder) -> Outputs:
    """The number of elements is a constant."""
    return op.const(np.array(len(_elements(node)), "int64"))


@rule("ConcatFromSequence")
def concatenated(node: ir.Node, op: Builder) -> Outputs:
    """Elements one after the other, along an axis of theirs or a new one."""
    elements, axis = _elements(node), node.attributes.get_int("axis")
    if not elements:
        raise ModelError("joins a sequence without elements, which has no shape")
    if node.attributes.get_int("new_axis", 0) == 1:
        axes = op.const([axis])
        elements = [op.op("Unsqueeze", each, axes) for each in elements]
    return op.op("Concat", *elements, axis=axis)


@rule("SequenceMap")
def mapped(node: ir.Node, op: Builder) -> Outputs:
    """Sequences of what a graph makes of each element, and of those of other sequences."""
    body = node.attributes["body"].as_graph()
    constants = constants_of(body)
    columns = [
        _elements(node, place) if _is_sequence(required(node, place)) else required(node, place)
        for place in range(len(node.inputs))
    ]
    first = _elements(node)
    rows = [
        inlined(
            body,
            [each if isinstance(each, ir.Value) else each[at] for each in columns],
            constants,
            op,
        )
        for at in range(len(first))
    ]
    if not rows:
        raise ModelError("maps a sequence without elements, of which it makes none of a known type")
    return [op.op("SequenceConstruct", *made) for made in zip(*rows, strict=True)]


@rule("OptionalHasElement")
def has_element(node: ir.Node, op: Builder) -> Outputs:
    """Whether a value is there is a constant."""
    there = bool(node.inputs) and node.inputs[0] is not None and _held(required(node)) is not None
    return op.const(np.array(there))


@rule("OptionalGetElement")
def get_element(node: ir.Node, op: Builder) -> Outputs:
    """A value that is there is that value."""
    del op
    value = _held(required(node))
    if value is None:
        raise ModelError("takes a value that is not there; ask for it before")
    return value


def _held(value: ir.Value) -> ir.Value | None:
    """Value that an optional one holds, or None; a tensor holds itself."""
    if not isinstance(value.type, ir.OptionalType):
        return value
    producer = value.producer()
    if producer is None or producer.op_type != "Optional":
        raise ModelError(f"takes {value.name!r}, which only the run gives or not; give a tensor")
    return producer.inputs[0] if producer.inputs else None


def _is_sequence(value: ir.Value) -> bool:
    return isinstance(value.type, ir.SequenceType)


def _elements(node: ir.Node, place: int = 0) -> Sequence[ir.Value]:
    """Elements of a sequence that a node takes."""
    value = required(node, place)
    producer = value.producer()
    if producer is not None and producer.op_type == "SequenceEmpty":
        return []
    if producer is None or producer.op_type != "SequenceConstruct":
        raise ModelError(
            f"takes a sequence ({value.name!r}) of elements that only the run tells; give tensors"
        )
    return [each for each in producer.inputs if each is not None]


def _place(node: ir.Node, at: int, places: int, count: int, usual: int) -> int:
    """Place in a sequence of ``count`` elements, ``usual`` where the node says none."""
    given = require_constant(node, at, "a place in a sequence")
    place = usual if given is None else int(given)
    place += count if place < 0 else 0
    if not 0 <= place < places:
        raise ModelError(f"takes place {place} of a sequence that has {count} elements")
    return place
