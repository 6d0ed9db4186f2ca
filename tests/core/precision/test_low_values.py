"""Values that may be bfloat16, by what single operators could do."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.precision.low_values import LowOperator, LowValues


def op(*reads, product=False, **facts):
    given = {"able": True, "is_product": product, "has_weights": product, "reads": reads}
    return LowOperator(**(given | {"reads_apart": frozenset(reads)} | facts))


def chain(**second):
    """A product, an operator with facts of its own, and a product that makes the result."""
    rows = (op(product=True), op(0, **second), op(1, product=True))
    return LowValues(operators=rows, outputs=(2,))


def test_values_between_products_may_be_and_results_of_the_model_may_not():
    assert chain().most() == LowPrecision(results=(0, 1), weights=(0, 2))


def test_an_operator_that_cannot_bars_what_it_reads_and_writes():
    assert chain(able=False).most() == LowPrecision(results=(), weights=(0, 2))
    assert chain().most(exact=(1,)) == LowPrecision(results=(), weights=(0, 2))


def test_what_is_kept_still_reads_bfloat16():
    assert chain().most(kept=(1,)) == LowPrecision(results=(0,), weights=(0, 2))


def test_pieces_of_a_whole_are_read_together_or_not_at_all():
    assert chain(reads_apart=frozenset()).most().results == (1,)


def test_a_view_has_the_type_of_what_it_is_a_view_of():
    assert chain(is_view=True).most().results == (0, 1)
    assert chain(is_view=True).most(kept=(0,)).results == ()
    assert chain(is_view=True, reads_others=True).most().results == ()


def test_what_is_rounded_behind_the_last_product_stays():
    values = chain()
    ends = LowValues(operators=(*values.operators, op(2), op(3)), outputs=(4,))
    assert ends.most().results == (0, 1)


def test_values_that_may_be_hold_and_others_do_not():
    values, most = chain(), chain().most()
    assert values.holds(most)
    assert not values.holds(replace(most, results=(2,)))
    assert not values.holds(replace(most, weights=(1,)))
