"""Reading of a fused function as attention, where it is written so that TVM compiles it.

Products of matrices are sums by ``einsum``, as TVM fuses those with what is around them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from tvm import relay, tir

from tvm_ios.relay.attention.places import Moved, moved, operand, shape_of, whole
from tvm_ios.relay.attention.values import Attention, Operand, ScoreStep
from tvm_ios.relay.constants import is_scalar, values_of
from tvm_ios.relay.dataflow import is_call_of
from tvm_ios.relay.functions.shapes import RESHAPES
from tvm_ios.relay.row_kernels.calling_convention import as_row
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["STEPS", "read_attention"]

Function = Callable[[tir.PrimExpr, tir.PrimExpr], tir.PrimExpr]

STEPS: Mapping[str, Function] = MappingProxyType(
    {
        "add": operator.add,
        "divide": operator.truediv,
        "multiply": operator.mul,
        "subtract": operator.sub,
    }
)
"""Functions of a score and another number, by TVM's names."""
SWAPPED = ("add", "multiply")
"""Operators whose score may be the second operand."""
MOST_SCORES = 1 << 23
"""Most scores of all heads, so that places are found in no time."""
NEAR_BYTES = 512 << 10
"""Bytes of keys and values of a head, which have to stay in the cache of a core."""
FEWEST = 4
"""Fewest queries and keys: others take longer to lay out than to compute."""


def read_attention(function: relay.Function) -> Attention:
    """Attention that a fused, typed function computes.

    Raises
    ------
    UnsuitableError
        If it computes anything else, its matrices lie at no fixed strides, keys and values of a
        head do not fit the cache of a core, or there are so few that little is gained.
    """
    return _Reader(function).attention()


class _Reader:
    """Reader of one function."""

    def __init__(self, function: relay.Function) -> None:
        self.function = function
        self.known: dict[relay.Expr, object] = {}
        self.parameters = {
            parameter: tir.decl_buffer(
                shape_of(parameter), parameter.checked_type.dtype, parameter.name_hint
            )
            for parameter in function.params
        }

    def attention(self) -> Attention:
        """Attention of the function."""
        result = _before(self.function.body, *RESHAPES, "transpose")
        (shares, axes), right = _operands(result)
        softmax = _before(shares, *RESHAPES)
        if axes != "bik" or not is_call_of(softmax, "nn.softmax") or not _along_last(softmax):
            raise UnsuitableError
        heads, queries, width = shape_of(result)
        value = self._matrix(*right, "bkj")
        keys = value.numbers.shape[1]
        if heads * queries * keys > MOST_SCORES or min(queries, keys) < FEWEST:
            raise UnsuitableError
        steps, scores = self._steps(softmax.args[0], (heads, queries, keys))
        left, right = _operands(scores)
        query, key = self._matrix(*left, "bik"), self._matrix(*right, "bjk")
        depth = query.numbers.shape[2]
        if 4 * keys * (depth + width) > NEAR_BYTES or value.factor != 1.0:
            raise UnsuitableError
        factor = query.factor * key.factor
        if factor != 1.0:
            steps.insert(0, _with_number("multiply", factor))
        written = tir.decl_buffer(shape_of(self.function.body), "float32", "result")
        return Attention(
            heads=heads,
            queries=queries,
            keys=keys,
            depth=depth,
            width=width,
            query=self._operand(query),
            key=self._operand(key),
            value=self._operand(value),
            result=operand(as_row(written), self._places(result)),
            steps=tuple(steps),
            parameters=(*self.parameters.values(), written),
        )

    def _places(self, result: relay.Expr) -> np.ndarray:
        """Number in the function's result of each element of the product that it is made of."""
        shape = shape_of(result)
        self.known[result] = whole(relay.Var("result", result.checked_type), shape)
        numbers = moved(self.function.body, self.known).numbers.reshape(-1)
        places = np.empty_like(numbers)
        places[numbers] = np.arange(len(numbers), dtype=numbers.dtype)
        return places.reshape(shape)

    def _matrix(self, expression: relay.Expr, axes: str, wanted: str) -> Moved:
        """Matrices with axes in the order wanted."""
        found = moved(expression, self.known)
        turned = found.numbers.transpose([axes.index(each) for each in wanted])
        return Moved(found.parameter, turned, found.factor)

    def _steps(
        self, expression: relay.Expr, shape: tuple[int, int, int]
    ) -> tuple[list[ScoreStep], relay.Expr]:
        """Steps from the product to an expression, and the product."""
        steps: list[ScoreStep] = []
        while not is_call_of(expression, "einsum"):
            if is_call_of(expression, *RESHAPES):
                expression = expression.args[0]
                continue
            if not is_call_of(expression, *STEPS):
                raise UnsuitableError
            name = expression.op.name
            score, other = expression.args
            if name in SWAPPED and not _leads_to_product(score):
                score, other = other, score
            extents = shape_of(expression)
            if shape_of(score) != extents:
                raise UnsuitableError
            steps.insert(0, self._step(name, other, extents, shape))
            expression = score
        return steps, expression

    def _step(
        self, name: str, other: relay.Expr, extents: tuple[int, ...], shape: tuple[int, int, int]
    ) -> ScoreStep:
        if is_scalar(other):
            number = float(values_of(other))
            if name == "divide" and number:
                return _with_number("multiply", 1 / number)
            return _with_number(name, number)
        found = moved(other, self.known)
        if found.factor != 1.0:
            raise UnsuitableError
        numbers = np.broadcast_to(found.numbers, extents).reshape(shape)
        matrix = self._operand(Moved(found.parameter, numbers, 1.0))
        return ScoreStep(operands=(matrix,), function=STEPS[name])

    def _operand(self, found: Moved) -> Operand:
        buffer = self.parameters[found.parameter]
        if buffer.dtype != "float32":
            raise UnsuitableError
        return operand(as_row(buffer), found.numbers)


def _with_number(name: str, number: float) -> ScoreStep:
    other = tir.const(number, "float32")
    return ScoreStep(operands=(), function=lambda score: STEPS[name](score, other))


def _operands(product: relay.Expr) -> list[tuple[relay.Expr, str]]:
    """Operands of a product, and the names of their axes: i of rows, j of columns, k of a sum."""
    if not is_call_of(product, "einsum"):
        raise UnsuitableError
    sides, made = str(product.attrs.equation).split("->")
    names = sides.split(",")
    if made != "bij" or ["".join(sorted(each)) for each in names] != ["bik", "bjk"]:
        raise UnsuitableError
    return list(zip(product.args[0].fields, names, strict=True))


def _before(expression: relay.Expr, *moves: str) -> relay.Expr:
    """Operand of a chain of moves of data."""
    while is_call_of(expression, *moves):
        expression = expression.args[0]
    return expression


def _along_last(softmax: relay.Call) -> bool:
    rank = len(softmax.checked_type.shape)
    return bool(int(softmax.attrs.axis) % rank == rank - 1)


def _leads_to_product(expression: relay.Expr) -> bool:
    """True if the product of query and key is computed in front of an expression."""
    pending = [expression]
    while pending:
        each = pending.pop()
        if is_call_of(each, "einsum"):
            return True
        if isinstance(each, relay.Call):
            pending.extend(each.args)
    return False
