"""Choice of the values of a model that may lie in memory as bfloat16. No TVM.

A dialect says what each operator could do; what follows from all of them together is said here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tvm_ios.core.precision.low_precision import LowPrecision

__all__ = ["LowOperator", "LowValues"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LowOperator:
    """Operator of a model of float32, and what of it could be bfloat16."""

    able: bool
    """True if it may read and write float32 as bfloat16."""
    is_product: bool
    """True if it computes a convolution or a product of matrices."""
    own_loops: bool = False
    """True if compiled loops of such a product load and store bfloat16 as fast as float32."""
    has_weights: bool
    """True if it has constant weights of float32."""
    reads: tuple[int, ...]
    """Operators whose results it reads, each once."""
    reads_apart: frozenset[int] = frozenset()
    """Operators among these whose results it could read as bfloat16, whatever its others are."""
    is_view: bool = False
    """True if its result is made of the bytes that it reads."""
    reads_others: bool = False
    """True if it reads more than results of operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowValues:
    """Values of a model of float32 that could be bfloat16."""

    operators: tuple[LowOperator, ...]
    outputs: tuple[int, ...]
    """Operators that make results of the model, which stay float32."""

    def most(self, kept: Collection[int] = (), exact: Collection[int] = ()) -> LowPrecision:
        """Most values that may be bfloat16; a view has the type of what it is a view of.

        Parameters
        ----------
        kept
            Operators that write float32 and have weights of it.
        exact
            Operators that neither read nor write bfloat16.
        """
        operators, near_end = self.operators, self._near_end()
        able = [each.able and index not in exact for index, each in enumerate(operators)]
        may = [
            able[index] and index not in kept and index not in near_end
            for index in range(len(operators))
        ]
        groups = list(range(len(operators)))

        def group_of(index: int) -> int:
            while groups[index] != index:
                index = groups[index]
            return index

        for index, operator in enumerate(operators):
            for each in operator.reads:
                if not able[index] or each not in operator.reads_apart:
                    may[each] = False
            if operator.is_view:
                if operator.reads_others:
                    may[index] = False
                for each in operator.reads:
                    groups[group_of(index)] = group_of(each)
        barred = {group_of(index) for index, allowed in enumerate(may) if not allowed}
        return LowPrecision(
            results=tuple(
                index
                for index, allowed in enumerate(may)
                if allowed and group_of(index) not in barred
            ),
            weights=tuple(
                index
                for index, each in enumerate(operators)
                if able[index] and index not in kept and each.has_weights
            ),
        )

    def holds(self, low: LowPrecision) -> bool:
        """True if values may be as somebody says."""
        most = self.most()
        return {*low.results} <= {*most.results} and {*low.weights} <= {*most.weights}

    def _near_end(self) -> set[int]:
        """Operators between whose results and those of the model no product lies.

        What is rounded there is never averaged again.
        """
        found: set[int] = set()
        waiting = list(self.outputs)
        while waiting:
            index = waiting.pop()
            if index in found:
                continue
            found.add(index)
            if not self.operators[index].is_product:
                waiting += self.operators[index].reads
        return found
