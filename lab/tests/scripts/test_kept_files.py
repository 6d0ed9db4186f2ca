"""Differences between kept files of one network, found in execution plans built by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.plan.library_call import LibraryCall, LibraryName
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios_lab.scripts.kept_files import differing, spread, way

LAUNCH = Launch(operator="a", operator_index=0, kernel="k", inputs=(), outputs=())
CUT = SimpleNamespace(as_text=lambda: "1x1x2")
CALL = LibraryCall(LibraryName("onednn", "oneDNN"), SimpleNamespace(cut=CUT))
BY_ONEDNN = replace(LAUNCH, call=CALL)


def plan(*launches: Launch) -> ExecutionPlan:
    return ExecutionPlan(
        lanes=2,
        buffers=(),
        tensors=(),
        launches=launches,
        groups=(),
        inputs=(),
        outputs=(),
        arena_bytes=0,
    )


def test_a_way_has_maker_parts_and_lanes() -> None:
    assert way(LAUNCH) == "tvm"
    assert way(replace(LAUNCH, split=False)) == "tvm, one lane"
    assert way(BY_ONEDNN) == "onednn 1x1x2"
    assert way(None) == "view"


def test_only_what_differs_is_told() -> None:
    other = replace(LAUNCH, operator="b")
    found = differing({"one": plan(LAUNCH, other), "two": plan(BY_ONEDNN, other)})
    assert found == [("a", "tvm", "onednn 1x1x2")]
    assert differing({"one": plan(other), "two": plan(other)}) == []


def test_instances_of_a_file_are_told_beside_each_other() -> None:
    row = CompareRound(run_ns=(1.02e6, 1.0e6, 1.1e6), ping_pong_ns=50.0, slow=False)
    names = ("net.0 #0", "net.0 #1", "net.1 #0")
    raced = Comparison(names=names, rounds=(row,) * 6, confidence=0.95, notes=())
    assert spread(raced) == (("net.0", "0.0 2.0"), ("net.1", "10.0"))
