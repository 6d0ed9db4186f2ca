from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.core.window_tiles import Axis, row_vectors


@st.composite
def _columns(draw):
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    extent, before = draw(st.integers(kernel, 90)), draw(st.integers(0, kernel - 1))
    behind = draw(st.integers(0, kernel - 1))
    result = (extent + before + behind - kernel) // stride + 1
    return Axis(
        extent=extent, result=result, kernel=kernel, stride=stride, before=before, dilation=1
    )


@given(_columns(), st.sampled_from([4, 8, 16]), st.integers(1, 4))
def test_vectors_cover_a_row_and_only_those_within_repeat(columns, lanes, together):
    covered = set()
    for group in row_vectors(columns, lanes, 4, together):
        assert len(group.vectors) <= together
        for number in range(group.count):
            begin = group.begin + number * group.width
            for vector in group.vectors:
                first = begin + vector.offset
                assert first >= 0
                assert first + vector.results <= columns.result
                assert vector.results <= vector.lanes <= lanes
                covered.update(range(first, first + vector.results))
                if group.count > 1:
                    assert columns.is_inner(first, first + vector.results)
    assert covered == set(range(columns.result))


def test_a_row_has_ends_and_a_loop_between():
    columns = Axis(extent=100, result=100, kernel=3, stride=1, before=1, dilation=1)
    found = [(each.begin, each.count, each.width) for each in row_vectors(columns, 16, 4, 2)]
    assert found == [(0, 1, 32), (32, 2, 32), (96, 1, 32)]
    assert [each.lanes for each in list(row_vectors(columns, 16, 4, 2))[-1].vectors] == [4]
