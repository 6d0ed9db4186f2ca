from __future__ import annotations

import sys

import pytest

from tvm_ios.errors import HostError
from tvm_ios.plan.plan import ExecutionPlan, Group, Launch
from tvm_ios.plan.stream_order import order_on_streams
from tvm_ios_lab.figures.stream_figure import EventEdge, draw_streams, lay_out_streams


def plan_of(*groups: tuple[int, int, tuple[int, ...]]) -> ExecutionPlan:
    """Groups of one launch each: stage, lane, and the groups they wait for."""
    names = ("conv2d_0", "max_pool2d_1", "nn_custom", "add_3", "concatenate_4")
    launches = tuple(
        Launch(operator=names[number], operator_index=number, kernel="", inputs=(), outputs=())
        for number in range(len(groups))
    )
    return ExecutionPlan(
        tensors=(),
        buffers=(),
        inputs=(),
        outputs=(),
        arena_bytes=0,
        launches=launches,
        lanes=1 + max(lane for _, lane, _ in groups),
        groups=tuple(
            Group(stage=stage, position=lane, launches=(number,), dependencies=needs, lane=lane)
            for number, (stage, lane, needs) in enumerate(groups)
        ),
    )


DIAMOND = ((0, 0, ()), (1, 0, (0,)), (1, 1, (0,)), (2, 0, (1, 2)))


def test_launches_stand_after_what_they_wait_for():
    layout = lay_out_streams(order_on_streams(plan_of(*DIAMOND)))
    assert layout.places == {0: (1, 1), 1: (1, 2), 2: (2, 2), 3: (1, 3)}
    assert (layout.streams, layout.columns) == (2, 5)


def test_every_wait_is_an_arrow_from_where_its_event_is_recorded():
    program = order_on_streams(plan_of(*DIAMOND))
    edges = lay_out_streams(program).edges
    found = {(edge.source, edge.target) for edge in edges}
    assert found == {(None, 0), (0, 2), (2, 3), (3, None)}
    assert EventEdge(event=0, source=None, target=0) in edges


def svg_of(path, plan):
    draw_streams(plan, path, title="a diamond")
    return path.read_text()


def test_the_picture_names_operators_streams_and_events(tmp_path):
    svg = svg_of(tmp_path / "streams.svg", plan_of(*DIAMOND))
    for text in ("a diamond", "caller", "stream 1", "stream 2", "fork", "join", "max pool"):
        assert f"<!-- {text}" in svg
    assert "<!-- nn_custom -->" in svg
    assert "4 launches on 2 streams, 4 events, 4 waits" in svg
    assert "order, not time" in svg


def test_the_same_picture_twice_is_the_same_file(tmp_path):
    plan = plan_of(*DIAMOND, (4, 1, (0,)))
    for name in ("a.png", "b.png"):
        draw_streams(plan, tmp_path / name, title="a diamond")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_missing_matplotlib_is_named(tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(HostError, match=r"pip install 'matplotlib>="):
        draw_streams(plan_of(*DIAMOND), tmp_path / "streams.png", title="a diamond")
