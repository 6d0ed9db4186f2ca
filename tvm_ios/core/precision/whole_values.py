"""Choice of the values of a quantised model that lie in memory as whole numbers. No TVM.

A dialect says what each operator does; what follows from all of them together is said here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tvm_ios.core.precision.stored_type import StoredType

__all__ = ["WholeOperator", "whole_results"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeOperator:
    """Operator of a quantised model that computes in float32, and what it reads."""

    reads: tuple[int, ...]
    """Operators whose results it reads."""
    able: bool = True
    """True if it may read whole numbers and convert them."""
    rounds_to: StoredType | None = None
    """Whole numbers that stand for its result; None where it rounds none."""
    only_moves: bool = False
    """True if its result consists of elements of the results that it reads."""
    is_view: bool = False
    """True if its result is made of the bytes that it reads."""
    multiplies: frozenset[int] = field(default_factory=frozenset)
    """Operators whose results it multiplies as numbers of float32."""
    pair: tuple[int, int] | None = None
    """Operators whose results it multiplies by one another, if both are whole numbers."""


def whole_results(
    operators: Sequence[WholeOperator], outputs: Collection[int]
) -> dict[int, StoredType]:
    """Whole numbers in memory, by operator that writes them; results of the model are none.

    A product of two tensors reads them where nobody else reads the second one: its numbers are
    signed, all others unsigned. A view is of the type of what it is a view of.
    """
    found: dict[int, StoredType] = {}
    barred = {*outputs}
    for index, operator in enumerate(operators):
        barred |= operator.multiplies
        if not operator.able:
            barred.update(operator.reads)
        elif operator.rounds_to is not None:
            found[index] = operator.rounds_to.unsigned()
        elif operator.only_moves:
            types = {found.get(each) for each in operator.reads}
            if len(types) == 1 and (stored := types.pop()) is not None:
                found[index] = stored
    seconds = _only_seconds(operators, outputs)
    for operator in operators:
        if operator.pair is not None:
            right = operator.pair[1]
            if right not in seconds or operators[right].is_view:
                barred.add(right)
    _bar_together(found, barred, operators)
    return {
        index: stored.signed() if index in seconds else stored
        for index, stored in found.items()
        if index not in barred
    }


def _only_seconds(operators: Sequence[WholeOperator], outputs: Collection[int]) -> set[int]:
    """Operators whose results products of two read as the second tensor, and nobody otherwise."""
    found: set[int] = set()
    others = {*outputs}
    for operator in operators:
        right = None if operator.pair is None else operator.pair[1]
        for made in operator.reads:
            (found if made == right else others).add(made)
    return found - others


def _bar_together(
    found: Collection[int], barred: set[int], operators: Sequence[WholeOperator]
) -> None:
    """Bar what has no whole numbers since something else is barred.

    A product of two tensors that are none makes none, either.
    """
    before = -1
    while len(barred) != before:
        before = len(barred)
        for index, operator in enumerate(operators):
            group = {index, *operator.reads} if operator.is_view else {*(operator.pair or ())}
            if not group:
                continue
            if not group.issubset(found) or not barred.isdisjoint(group):
                barred |= {index, *group}
