"""Values that lie in memory as whole numbers, chosen from what operators do."""

from __future__ import annotations

from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.core.precision.whole_values import WholeOperator, whole_results

SIGNED = StoredType(dtype="int8", scale=0.5, zero_point=-3)
UNSIGNED = SIGNED.unsigned()


def rounding(*reads, **others):
    return WholeOperator(reads=reads, rounds_to=SIGNED, **others)


def reading(*reads, **others):
    return WholeOperator(reads=reads, **others)


def test_what_is_rounded_and_what_is_moved_of_it_is_whole():
    moving = reading(0, only_moves=True)
    assert whole_results([rounding(), moving, reading(1)], {2}) == {0: UNSIGNED, 1: UNSIGNED}
    other = WholeOperator(reads=(), rounds_to=StoredType(dtype="uint8"))
    joined = reading(0, 1, only_moves=True)
    assert 2 not in whole_results([rounding(), other, joined, reading(2)], {3})


def test_results_and_what_is_multiplied_or_read_by_others_are_none():
    assert whole_results([rounding()], {0}) == {}
    assert whole_results([rounding(), reading(0, multiplies=frozenset({0}))], {1}) == {}
    assert whole_results([rounding(), reading(0, able=False)], {1}) == {}


def test_a_view_is_what_it_is_a_view_of():
    view = reading(0, only_moves=True, is_view=True)
    product = reading(1, multiplies=frozenset({1}))
    assert whole_results([rounding(), view, reading(1)], {2}) == {0: UNSIGNED, 1: UNSIGNED}
    assert whole_results([rounding(), view, product], {2}) == {}
    assert whole_results([rounding(), view], {1}) == {}


def test_a_product_of_two_reads_a_signed_second_one_that_it_has_for_itself():
    pair = reading(0, 1, pair=(0, 1))
    found = whole_results([rounding(), rounding(), pair], {2})
    assert found == {0: UNSIGNED, 1: UNSIGNED.signed()}
    assert whole_results([rounding(), rounding(), pair, reading(1)], {2, 3}) == {}
    view = reading(1, only_moves=True, is_view=True)
    of_view = reading(0, 2, pair=(0, 2))
    assert whole_results([rounding(), rounding(), view, of_view], {3}) == {}


def test_both_of_a_pair_are_whole_or_none():
    pair = rounding(0, 1, pair=(0, 1))
    found = whole_results([rounding(), rounding(), pair, reading(2)], {3})
    assert found == {0: UNSIGNED, 1: UNSIGNED.signed(), 2: UNSIGNED}
    assert whole_results([rounding(), reading(), pair, reading(2)], {3}) == {}
    assert whole_results([rounding(), rounding(), pair], {0, 2}) == {}
