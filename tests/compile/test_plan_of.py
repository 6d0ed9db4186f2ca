"""What compiling needs to know of a schedule before there is code."""

from __future__ import annotations

from tvm_ios.compile.plan_of import widest_stage
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy


def test_a_merge_needs_one_stream_however_many_its_members() -> None:
    """A merge of three, two operators side by side, and nothing at all."""
    merge = Stage(((0,), (1,), (2,)), Strategy.MERGE)
    widths = [
        widest_stage(
            InterOpSchedule(
                graph_name="g",
                graph_fingerprint="f",
                operator_names=tuple(f"operator {index}" for index in range(5)),
                scheduler="test",
                stages=stages,
            )
        )
        for stages in ((merge,), (merge, Stage(((3,), (4,)))), ())
    ]
    assert widths == [1, 2, 1]
