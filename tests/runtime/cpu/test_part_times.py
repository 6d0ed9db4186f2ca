"""Parts of a joined network, timed in one program."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tvm_ios
from tests.relay.frontends.test_joined import dense
from tvm_ios.driver.several import joined
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.cpu.part_times import part_times, times_in_trace


@pytest.fixture(scope="module")
def compiled():
    network = joined({"a": dense(), "b": dense(units=2)})
    return tvm_ios.compile_schedule(network, {}, "llvm -opt-level=0", lanes=1)


@pytest.mark.slow(2)
def test_every_part_is_timed_alone_and_beside_the_others(compiled):
    with compiled.executor() as executor:
        times = part_times(executor)
        assert [part.name for part in times.parts] == ["a", "b"]
        assert times.together_ns > 0
        assert all(part.alone_ns > 0 and part.done_ns > 0 for part in times.parts)
        # In order, on one lane, the part that comes second waits for the first all the time.
        first, second = sorted(times.parts, key=lambda part: part.done_ns)
        assert first.waits_ns.keys() <= {""}
        assert second.waits_ns[first.name] > 0


@pytest.mark.slow(1)
def test_waits_follow_from_the_trace_and_the_data(compiled):
    plan = compiled.plan
    names = [launch.operator for launch in plan.launches]
    trace = [
        TraceEvent(operator=name, stage=n, group=0, lane=0, start_ns=10 * n, end_ns=10 * n + 10)
        for n, name in enumerate(names)
    ]
    found = times_in_trace(plan, trace)
    ends = [done_ns for done_ns, _ in found.values()]
    assert max(ends) == 10 * len(names)
    waits = [waits_ns for _, waits_ns in found.values()]
    assert {} in waits
    assert any(each for each in waits)


@pytest.mark.slow(2)
def test_parts_alone_are_split_as_in_sequential_order(compiled):
    unsplit = compiled.plan.launches[0].operator
    sequential = compiled.with_alone(compiled.plan)
    assert all(launch.split_alone for launch in sequential.plan.launches)
    rows = tuple(replace(each, split=each.operator != unsplit) for each in compiled.plan.launches)
    changed = compiled.with_alone(replace(compiled.plan, launches=rows))
    assert [each.operator for each in changed.plan.launches if not each.split_alone] == [unsplit]
    assert all(each.split for each in changed.plan.launches)
