"""Evaluation of a small network: all contestants are there, and all compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvm_ios.core.schedule import Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.driver.races.stock_contestants import STOCK_ALL, STOCK_LANES, STOCK_ONE
from tvm_ios.errors import DatabaseError, OptionError
from tvm_ios.host import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.runtime.cpu.stock_executor import StockExecutor
from tvm_ios.support.progress import Progress
from tvm_ios_lab.bench.evaluation import (
    GREEDY,
    IOS,
    IOS_LIST,
    IOS_STRATEGIES,
    SEQUENTIAL,
    Evaluation,
    evaluate,
)

LANES = min(2, default_lanes())
# A busy machine is no concern of these tests: no waiting for its fast mode.
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
COMPARE = CompareOptions(rounds=6, min_repeat_ms=0.2, mode=CALM)


@pytest.fixture(scope="module")
def steps() -> list[Progress]:
    return []


@pytest.fixture(scope="module")
def found(branching, steps: list[Progress], tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return evaluate(
        *branching,
        MeasuringCall.here(
            lanes=LANES,
            database=tmp_path_factory.mktemp("evaluation") / "prices.sqlite",
            compare=COMPARE,
            time_budget=120.0,
            progress=steps.append,
        ),
        target="llvm",
        name="branching",
    )


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((1, 16, 8, 8)).astype("float32")


@pytest.fixture(scope="module")
def expected(found: Evaluation, image: np.ndarray) -> np.ndarray:
    """Output of TVM's own executor for the image."""
    staged = found.built.kernels.staged
    library = found.built.kernels.library
    stock = StockExecutor(staged.graph_json, library, staged.params, lanes=1)
    stock.set_input("data", image)
    output = stock.outputs()[0].numpy()
    stock.close()
    return output


@pytest.mark.slow
def test_all_contestants_are_there(found: Evaluation) -> None:
    ours = {SEQUENTIAL, GREEDY, *IOS_STRATEGIES}
    if IOS_LIST in found.models:  # none where one lane is as good
        ours.add(IOS_LIST)
    assert set(found.models) == ours
    assert set(found.searches) == set(IOS_STRATEGIES)
    assert set(found.comparison.names) == ours | {STOCK_ONE, STOCK_ALL, STOCK_LANES}
    assert len(found.comparison.rounds) >= COMPARE.rounds
    assert found.kept in {SEQUENTIAL, GREEDY, IOS, IOS_LIST}
    assert found.best_stock in {STOCK_ONE, STOCK_ALL}


@pytest.mark.slow
def test_schedules_are_right_and_keep_to_their_strategies(found: Evaluation) -> None:
    for name, model in found.models.items():
        verify_schedule(model.schedule, model.graph)
        used = {stage.strategy for stage in model.schedule.stages if len(stage.groups) > 1}
        begun = IOS if name == IOS_LIST else name
        assert used <= IOS_STRATEGIES.get(begun, {Strategy.CONCURRENT})
        assert len(model.schedule.operator_ns) == len(model.graph)
    unsplit = {name: model.schedule.unsplit for name, model in found.models.items()}
    of_list = unsplit.pop(IOS_LIST, unsplit[IOS])
    assert len(set(unsplit.values())) == 1
    assert set(of_list) >= set(unsplit[IOS])
    assert all(len(stage.groups) == 1 for stage in found.models[SEQUENTIAL].schedule.stages)


@pytest.mark.slow
def test_everyone_computes_what_stock_tvm_computes(
    found: Evaluation, image: np.ndarray, expected: np.ndarray
) -> None:
    for model in found.models.values():
        merges = any(
            stage.strategy is Strategy.MERGE and len(stage.groups) > 1
            for stage in model.schedule.stages
        )
        check: Callable[..., None] = np.testing.assert_array_equal
        tolerance = {}
        if merges:
            check, tolerance = np.testing.assert_allclose, {"rtol": 1e-4, "atol": 1e-5}
        with model.executor() as executor:
            executor.set_input("data", image)
            executor.run()
            check(executor.get_output(0).numpy(), expected, **tolerance)


@pytest.mark.slow
def test_prices_and_trace_are_of_the_ios_schedule(found: Evaluation) -> None:
    model = found.models[IOS]
    assert len(found.stage_prices_ns) == len(model.schedule.stages)
    traced = sorted(event.operator for event in found.trace)
    assert traced == sorted(launch.operator for launch in model.plan.launches)
    assert {event.lane for event in found.trace} <= set(range(LANES))
    assert found.counters.priced > 0


@pytest.mark.slow
def test_text_tells_the_comparison_and_what_was_kept(
    found: Evaluation, steps: list[Progress]
) -> None:
    text = found.as_text()
    assert all(name in text for name in found.comparison.names)
    assert f"tune keeps {found.kept}" in text
    assert set(found.phase_s) == {step.phase for step in steps}


def test_what_cannot_be_honoured_is_refused_before_any_work(tmp_path) -> None:
    for options, message in (
        ({"lanes": 0}, "lanes is 0"),
        ({"lanes": default_lanes() + 1}, "cores"),
        ({"lanes": 1, "time_budget": 0}, "time_budget is 0"),
    ):
        with pytest.raises(OptionError, match=message):
            MeasuringCall.here(**options)
    path = tmp_path / "not.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseError, match=r"not\.sqlite"):
        MeasuringCall.here(lanes=1, database=path)
