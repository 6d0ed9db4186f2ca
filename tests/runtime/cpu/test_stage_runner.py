"""Stages of built libraries are prepared and timed on real lanes."""

from __future__ import annotations

import pytest

from tvm_ios.errors import CostError, OptionError
from tvm_ios.host.processor import usable_cores
from tvm_ios.runtime.cpu.stage_runner import NativeStageRunner
from tvm_ios.runtime.libraries.processor import ThisProcessor


@pytest.fixture(scope="module")
def runner():
    runner = NativeStageRunner(ThisProcessor(), min(2, len(usable_cores())))
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def library(runner, exported):
    built, path = exported
    return runner.add_library(lambda: path, built.graph, built.factory.get_params(), built.views)


def operators(built):
    return len(built.graph.operators)


def test_any_stage_of_a_library_takes_time(runner, library, exported):
    count = operators(exported[0])
    whole = runner.prepare([[(library, index) for index in range(count)]])
    beside = runner.prepare([[(library, index)] for index in range(count)])
    for handle in (whole, beside):
        assert handle.time_ns(3) > 0


def test_dropped_operators_cost_nothing(runner, build_random, tmp_path):
    built = build_random(seed=12, size=12, opt_level=2)
    built.factory.export_library(str(tmp_path / "model.so"))
    library = runner.add_library(
        lambda: tmp_path / "model.so", built.graph, built.factory.get_params(), built.views
    )
    views = [index for index, view in enumerate(built.views) if view is not None]
    handle = runner.prepare([[(library, index) for index in views]])
    assert len(handle.operators) < len(views)


def test_an_empty_stage_can_be_timed(runner):
    assert runner.prepare([]).time_ns(10) == 0


def test_two_libraries_share_a_stage(runner, library, exported):
    built, path = exported
    second = runner.add_library(
        lambda: path, built.graph, built.factory.get_params(), [None] * len(built.views)
    )
    assert second != library
    handle = runner.prepare([[(library, 0)], [(second, 0), (second, 1)]])
    assert handle.time_ns(2) > 0


@pytest.mark.parametrize(
    ("library_number", "operator", "message"),
    [(99, 0, "no library 99"), (-1, 0, "no library -1"), (0, 9999, "no operator 9999")],
)
def test_what_does_not_exist_is_named(runner, library, library_number, operator, message):
    assert library == 0
    with pytest.raises(CostError, match=message):
        runner.prepare([[(library_number, operator)]])


def test_more_lanes_than_cores_are_refused():
    with pytest.raises(OptionError, match="cores"):
        NativeStageRunner(ThisProcessor(), len(usable_cores()) + 1)


def test_a_closed_runner_says_so(exported):
    built, path = exported
    with_views = (lambda: path, built.graph, built.factory.get_params(), built.views)
    closed = NativeStageRunner(ThisProcessor(), 1)
    handle = closed.prepare([[(closed.add_library(*with_views), 0)]])
    assert closed.ping_pong_ns() == 0
    closed.close()
    with pytest.raises(CostError, match="closed"):
        handle.time_ns(1)


def test_a_library_is_exported_for_its_first_stage_and_only_once(exported):
    built, path = exported
    exports = []

    def export():
        exports.append(path)
        return path

    runner = NativeStageRunner(ThisProcessor(), 1)
    params = built.factory.get_params()
    library = runner.add_library(export, built.graph, params, [None] * len(built.views))
    assert not runner.needs_no_kernel(library, 0)
    assert exports == []
    for index in (0, 1):
        assert runner.prepare([[(library, index)]]).time_ns(1) > 0
    assert exports == [path]
    runner.close()
