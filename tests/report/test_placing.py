from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_ios.report.placing import place_rows

ROWS = st.lists(st.lists(st.floats(0.05, 2.0), min_size=1, max_size=6), min_size=1, max_size=6)


@settings(deadline=None)
@given(rows=ROWS, data=st.data())
def test_items_of_a_row_never_overlap_and_the_left_edge_is_at_zero(rows, data):
    links = [
        data.draw(
            st.lists(
                st.tuples(st.integers(0, len(upper) - 1), st.integers(0, len(lower) - 1)),
                max_size=8,
            )
        )
        for upper, lower in pairwise(rows)
    ]
    placed = place_rows(rows, links, gap=0.1)
    for widths, centres in zip(rows, placed, strict=True):
        spans = sorted((c - w / 2, c + w / 2) for c, w in zip(centres, widths, strict=True))
        for (_, right), (left, _) in pairwise(spans):
            assert left - right > 0.1 - 1e-9
    edges = [
        c - w / 2 for ws, cs in zip(rows, placed, strict=True) for w, c in zip(ws, cs, strict=True)
    ]
    assert min(edges) == pytest.approx(0)


def test_crossed_links_are_uncrossed():
    top, bottom = place_rows([[1, 1], [1, 1]], [[(0, 1), (1, 0)]], gap=0.1)
    assert (top[0] < top[1]) == (bottom[1] < bottom[0])


def test_a_parent_stands_over_the_middle_of_its_children():
    top, bottom = place_rows([[1], [1, 1]], [[(0, 0), (0, 1)]], gap=0.5)
    assert top[0] == pytest.approx(sum(bottom) / 2)


def test_no_rows_and_empty_rows_are_fine():
    assert place_rows([], [], gap=1) == []
    assert place_rows([[], [1]], [[]], gap=1) == [[], [0.5]]
