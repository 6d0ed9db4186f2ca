"""Builder of an encoder of tokens in Relay, a schedule unit at a time; spans as in ``builder``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation, activated
from tvm_ios.models.operators import op
from tvm_ios.models.weights import Network, Weights, named

__all__ = ["Rows", "TransformerBuilder"]

_UNIT_VARIANCE = math.sqrt(3)
"""Bound of a uniform distribution around 0 whose variance is 1."""
_BOUND = 0.02 * math.sqrt(3)
"""Bound of weights and biases, which scatter as those that BERT is trained from. With larger ones
the mean of all tokens, which attention adds to each, would outgrow their differences."""
_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class Rows:
    """Float32 value of the network under construction, (sequences * tokens, features)."""

    expr: Any
    features: int


class TransformerBuilder:
    """Builder that emits units in program order; each method but :meth:`finish` emits one.

    Raises
    ------
    OptionError
        If there is no sequence, or no token in each.
    """

    def __init__(self, *, batch_size: int, sequence: int, seed: int) -> None:
        if min(batch_size, sequence) < 1:
            raise OptionError(
                f"network input of {batch_size} sequences of {sequence} tokens is empty; both must "
                "be at least 1"
            )
        self._tokens = op.var("tokens", shape=(batch_size, sequence), dtype="int64")
        self._shape = (batch_size, sequence)
        self._weights = Weights(self._tokens, seed)

    def finish(self, unit: str, output: Rows) -> Network:
        """Module that computes ``output``, by sequences, type-checked, and its weights."""
        shape = (*self._shape, output.features)
        return self._weights.network(named(unit, op.reshape(output.expr, shape)))

    def embed(self, unit: str, vocabulary: int, features: int) -> Rows:
        """Sum of the embeddings of each token, of its position, and of the only segment."""
        _, sequence = self._shape
        words = self._weights.draw(f"{unit}.words", (vocabulary, features), 1.0)
        positions = self._weights.draw(f"{unit}.positions", (sequence, features), 1.0)
        segment = self._weights.draw(f"{unit}.segment", (features,), 1.0)
        taken = named(unit, op.take(words, self._tokens, axis=0))
        placed = named(unit, op.add(positions, segment))
        total = named(unit, op.add(taken, placed))
        return Rows(named(unit, op.reshape(total, (-1, features))), features)

    def normalise(self, unit: str, operand: Rows) -> Rows:
        """Rows at mean 0 and variance 1, then scaled and shifted (Ba et al., 2016)."""
        scale = self._weights.draw(f"{unit}.scale", (operand.features,), _UNIT_VARIANCE)
        shift = self._weights.draw(f"{unit}.shift", (operand.features,), _BOUND)
        call = op.nn.layer_norm(operand.expr, scale, shift, axis=-1, epsilon=_EPSILON)
        return Rows(named(unit, call), operand.features)

    def dense(
        self,
        unit: str,
        operand: Rows,
        features: int,
        *,
        activation: Activation = Activation.NONE,
    ) -> Rows:
        """Product of each row with a matrix of weights and bias, then the activation."""
        weight = self._weights.draw(f"{unit}.weight", (features, operand.features), _BOUND)
        bias = self._weights.draw(f"{unit}.bias", (features,), _BOUND)
        product = named(unit, op.nn.dense(operand.expr, weight))
        biased = named(unit, op.nn.bias_add(product, bias))
        return Rows(activated(unit, biased, activation), features)

    def attend(self, unit: str, query: Rows, key: Rows, value: Rows, heads: int) -> Rows:
        """Scaled dot-product attention of each head on its share of the features, not masked.

        Vaswani et al., "Attention Is All You Need" (NIPS 2017), section 3.2.
        """
        batch_size, sequence = self._shape
        size = query.features // heads

        def split(rows: Rows, axes: tuple[int, ...]) -> Any:
            """Matrices of heads, (sequences * heads, …), with axes in the order of batch_matmul."""
            by_head = named(unit, op.reshape(rows.expr, (batch_size, sequence, heads, size)))
            turned = named(unit, op.transpose(by_head, axes))
            # -3 joins sequences and heads, -2 keeps all that follows.
            return named(unit, op.reshape(turned, (-3, -2)))

        by_token, by_feature = (0, 2, 1, 3), (0, 2, 3, 1)
        scores = op.nn.batch_matmul(split(query, by_token), split(key, by_token))
        scaled = named(unit, op.multiply(named(unit, scores), op.const(1 / math.sqrt(size))))
        shares = named(unit, op.nn.softmax(scaled, axis=-1))
        read = named(unit, op.nn.batch_matmul(shares, split(value, by_feature)))
        by_head = named(unit, op.reshape(read, (batch_size, heads, sequence, size)))
        turned = named(unit, op.transpose(by_head, by_token))
        return Rows(named(unit, op.reshape(turned, (-1, query.features))), query.features)

    def add(self, unit: str, first: Rows, second: Rows) -> Rows:
        """Sum of two values of the same shape."""
        return Rows(named(unit, op.add(first.expr, second.expr)), first.features)
