"""Kernels of a built model with their times: kept in the database, told apart by their code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pricing import MEASURE, convolutions
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import open_database
from tvm_ios.profile.operator_measuring import measure_operators
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.search.baselines import sequential_schedule


def test_equal_kernels_have_equal_identities(runner: RelayStageRunner) -> None:
    graph = runner.graphs[TVM]
    left, middle, right = (graph.operators[index] for index in convolutions(graph))
    assert left.workload == right.workload != middle.workload
    for index, operator in enumerate(graph.operators):
        assert operator.workload.endswith("@view") == runner.needs_no_kernel(index)
        assert operator.workload.startswith(runner.built.graph.operators[index].workload + "@")


def test_prices_are_kept_in_the_database(
    runner: RelayStageRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy moment would leave other operators unsplit, which are other stages to price.
    monkeypatch.setattr(runner, "ping_pong_ns", lambda: 50.0)
    stages = sequential_schedule(runner.built.graph).stages
    counted = []
    for _ in range(2):
        batches: list[MeasureCounters] = []
        database = open_database(tmp_path / "prices.sqlite")
        kernels = MeasuredKernels(runner, database=database, options=MEASURE)
        with kernels.resumable():
            operators = measure_operators(kernels, on_batch=batches.append)
            costs = StagePrices(kernels, operators.choice()).price(kernels.graph, stages)
        counted.append((kernels.counters.priced, kernels.counters.from_database, costs))
        assert bool(batches) == bool(kernels.counters.priced)
    (measured, known, first), (measured_again, known_again, second) = counted
    assert (known, measured_again) == (0, 0)
    assert measured == known_again > 0
    assert first == second


def test_an_interrupt_saves_prices_and_says_how_to_go_on(
    runner: RelayStageRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(tmp_path / "prices.sqlite")
    kernels = MeasuredKernels(runner, database=database, options=MEASURE)
    saved: list[bool] = []
    monkeypatch.setattr(kernels.measured, "save", lambda: saved.append(True))
    with pytest.raises(KeyboardInterrupt) as caught, kernels.resumable():
        raise KeyboardInterrupt
    (note,) = caught.value.__notes__
    assert note.startswith(f"0 measured prices are kept in {database.path}; do the same again")
    assert saved == [True]
