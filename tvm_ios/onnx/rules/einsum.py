"""Rules for ``Einsum``: products of matrices, of elements, and sums, operand by operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import extents

__all__ = [
    "einsum",
]

_ELLIPSIS = "..."
_FIRST_OF_ELLIPSIS = 0x4E00
"""Code point of a letter that no equation has, which are those of the Latin alphabet."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor with a letter for each of its axes, none of them twice."""

    value: ir.Value
    letters: str
    sizes: dict[str, int]
    """Extents by letter, of all operands."""

    def shape(self) -> list[int]:
        return [self.sizes[letter] for letter in self.letters]


@rule("Einsum")
def einsum(node: ir.Node, op: Builder) -> Outputs:
    """A sum of products is computed from the first operand to the last one."""
    values = [value for value in node.inputs if value is not None]
    terms, result = _terms(node.attributes["equation"].as_string(), values)
    sizes = _sizes(terms, values)
    operands = [
        _with_single_letters(value, term, sizes, op)
        for value, term in zip(values, terms, strict=True)
    ]
    made = operands[0]
    for place, operand in enumerate(operands[1:], 1):
        later = result + "".join(each.letters for each in operands[place + 1 :])
        made = _product(_summed(made, later + operand.letters, op), operand, later, op)
    made = _summed(made, result, op)
    ones = "".join(letter for letter in result if letter not in made.letters)
    whole = op.reshape(made.value, [1] * len(ones) + made.shape())
    letters = ones + made.letters
    return op.transpose(whole, [letters.index(letter) for letter in result])


def _terms(equation: str, values: Sequence[ir.Value]) -> tuple[list[str], str]:
    """Letters of each operand and of the result, an ellipsis being letters of its own."""
    sides = equation.replace(" ", "").split("->")
    terms = sides[0].split(",")
    if len(terms) != len(values):
        raise ModelError(f"has {len(values)} operands and an equation of {len(terms)}")
    spare = [
        rank_of(value) - len(term.replace(_ELLIPSIS, ""))
        for value, term in zip(values, terms, strict=True)
    ]
    if any(
        count < 0 or (count and _ELLIPSIS not in term)
        for count, term in zip(spare, terms, strict=True)
    ):
        raise ModelError(f"has the equation {equation!r}, which does not fit its operands' axes")
    most = max(count if _ELLIPSIS in term else 0 for count, term in zip(spare, terms, strict=True))
    rest = "".join(chr(_FIRST_OF_ELLIPSIS + place) for place in range(most))
    terms = [
        term.replace(_ELLIPSIS, rest[most - count :])
        for count, term in zip(spare, terms, strict=True)
    ]
    if len(sides) > 1:
        return terms, sides[1].replace(_ELLIPSIS, rest)
    letters = "".join(terms)
    once = sorted({each for each in letters if letters.count(each) == 1 and each not in rest})
    return terms, rest + "".join(once)


def _sizes(terms: Sequence[str], values: Sequence[ir.Value]) -> dict[str, int]:
    """The extent of each letter; one broadcasts."""
    sizes: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        for letter, extent in zip(term, extents(value), strict=True):
            known = sizes.setdefault(letter, extent)
            if 1 not in (known, extent) and known != extent:
                raise ModelError(f"joins axes of {known} and {extent} places")
            sizes[letter] = extent if known == 1 else known
    return sizes


def _with_single_letters(
    value: ir.Value, term: str, sizes: dict[str, int], op: Builder
) -> _Operand:
    """The diagonal of a tensor where a letter comes twice, without axes that only broadcast."""
    shape = list(extents(value))
    letters = term
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            value, letters, shape = _diagonal(value, letters, letter, shape, op)
    kept = [place for place, each in enumerate(letters) if shape[place] != 1 or sizes[each] == 1]
    value = op.reshape(value, [shape[place] for place in kept])
    return _Operand(value, "".join(letters[place] for place in kept), sizes)


def _diagonal(
    value: ir.Value, letters: str, letter: str, shape: list[int], op: Builder
) -> tuple[ir.Value, str, list[int]]:
    """Elements at the same place of two axes, which become one, the last one."""
    pair = [place for place, each in enumerate(letters) if each == letter][:2]
    order = [place for place in range(len(letters)) if place not in pair] + pair
    kept = [shape[place] for place in order[:-2]]
    rows, columns = (shape[place] for place in pair)
    if rows != columns:
        raise ModelError(f"takes the diagonal of {rows} by {columns} places")
    flat = op.reshape(op.transpose(value, order), [*kept, rows * columns])
    places = op.const(np.arange(rows) * (columns + 1))
    made = op.op("Gather", flat, places, axis=len(kept))
    return made, "".join(letters[place] for place in order[:-1]), [*kept, rows]


def _summed(operand: _Operand, wanted: str, op: Builder) -> _Operand:
    """An operand without the letters that nobody wants any more."""
    gone = [place for place, letter in enumerate(operand.letters) if letter not in wanted]
    if not gone:
        return operand
    value = op.op("ReduceSum", operand.value, op.const(gone, "int64"), keepdims=0)
    kept = "".join(letter for letter in operand.letters if letter in wanted)
    return _Operand(value, kept, operand.sizes)


def _product(left: _Operand, right: _Operand, wanted: str, op: Builder) -> _Operand:
    """The product of two operands, summed over letters of both that nobody wants any more."""
    right = _summed(right, wanted + left.letters, op)
    both = [letter for letter in left.letters if letter in right.letters]
    batch = "".join(letter for letter in both if letter in wanted)
    inner = "".join(letter for letter in both if letter not in wanted)
    rows = "".join(letter for letter in left.letters if letter not in both)
    columns = "".join(letter for letter in right.letters if letter not in both)
    if not inner or not (rows or columns):
        letters = batch + inner + rows + columns
        made = op.op("Mul", *(_aligned(each, letters, op) for each in (left, right)))
        return _summed(_Operand(made, letters, left.sizes), wanted, op)
    factors = (
        _grouped(left, (batch, rows, inner), op),
        _grouped(right, (batch, inner, columns), op),
    )
    made = op.op("MatMul", *factors)
    whole = _Operand(made, batch + rows + columns, left.sizes)
    return _Operand(op.reshape(made, whole.shape()), whole.letters, left.sizes)


def _aligned(operand: _Operand, letters: str, op: Builder) -> ir.Value:
    """An operand that broadcasts to these letters."""
    own = [letter for letter in letters if letter in operand.letters]
    moved = op.transpose(operand.value, [operand.letters.index(letter) for letter in own])
    return op.reshape(moved, [operand.sizes[each] if each in own else 1 for each in letters])


def _grouped(operand: _Operand, groups: Sequence[str], op: Builder) -> ir.Value:
    """An operand with one axis for each group of letters, and none for an empty first one."""
    order = [operand.letters.index(letter) for letter in "".join(groups)]
    moved = op.transpose(operand.value, order)
    used = groups if groups[0] else groups[1:]
    return op.reshape(moved, [math.prod(operand.sizes[e] for e in group) for group in used])
