from __future__ import annotations

from tests.fake_runner import FakeStageRunner
from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

GRAPH = OperatorGraph("g", (op("a"),))
STAGE = Stage(((0,),))


def test_equal_seeds_give_equal_histories() -> None:
    def history(seed: int) -> list[float]:
        runner = FakeStageRunner(lambda _g, _s: 1e4, noise=0.1, spike_rate=0.2, seed=seed)
        handle = runner.prepare(GRAPH, STAGE)
        return [value for _ in range(20) for value in (handle.time_ns(3), runner.ping_pong_ns())]

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_the_slow_mode_comes_and_goes_with_simulated_time() -> None:
    runner = FakeStageRunner(lambda _g, _s: 1e6, slow_spans_s=[(1.0, 2.0)], slow_factor=2.0)
    handle = runner.prepare(GRAPH, STAGE)
    assert handle.time_ns(10) == 10_000_000
    assert runner.ping_pong_ns() < 60
    runner.sleep_s(1.0)
    assert handle.time_ns(10) == 20_000_000
    assert runner.ping_pong_ns() > 300
    runner.sleep_s(1.0)
    assert runner.ping_pong_ns() < 60
    assert runner.clock_ns() > 2_000_000_000


def test_a_single_lane_has_no_ping_pong() -> None:
    assert FakeStageRunner(lambda _g, _s: 1.0, lanes=1).ping_pong_ns() == 0
