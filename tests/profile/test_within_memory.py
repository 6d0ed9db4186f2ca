"""A limit of memory: who fits, who is made narrower, who is left out, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import Stage
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile.last_race import Racer
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.report.contestants import Contestant
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

SHAPE = (1, 8, 32, 32)
BRANCHES = 4


TARGET = "llvm -opt-level=0"


def wide_then_wider():
    """Sums of branches that each grow in the middle, once few and once many."""
    value = relay.var("data", shape=SHAPE)
    data, params = value, {}
    for block, branches in enumerate((2, BRANCHES)):
        ends = []
        for branch in range(branches):
            names = [f"w{block}_{branch}_{place}" for place in range(2)]
            shapes = [(32, 8, 1, 1), (8, 32, 1, 1)]
            end = value
            for name, shape in zip(names, shapes, strict=True):
                params[name] = np.full(shape, 0.01, "float32")
                weight = relay.var(name, shape=shape)
                end = relay.nn.conv2d(end, weight, channels=shape[0], kernel_size=(1, 1))
                end = relay.nn.relu(end)
            ends.append(end)
        value = ends[0]
        for end in ends[1:]:
            value = relay.add(value, end)
        value = relay.nn.softmax(value, axis=1)
    free = [data, *(each for each in relay.analysis.free_vars(value) if each.name_hint != "data")]
    return tvm.IRModule.from_expr(relay.Function(free, value)), params


@pytest.fixture(scope="module")
def built():
    return build_model(*wide_then_wider(), TARGET)


def racer(built, schedule):
    lower = partial(lower_schedule, built, lanes=2)
    return Racer(built=built, schedule=schedule, records="", lower=lower, prices_ns=(1,))


@pytest.fixture(scope="module")
def racers(built):
    in_order, greedy = sequential_schedule(built.graph), greedy_schedule(built.graph)
    home_lanes = tuple(index % 2 for index in range(len(built.graph)))
    singles = tuple(Stage(((index,),)) for index in range(len(built.graph)))
    listed = replace(in_order, stages=singles, home_lanes=home_lanes)
    schedules = {
        Contestant.SEQUENTIAL: in_order,
        Contestant.GREEDY: greedy,
        Contestant.IOS_LIST: listed,
    }
    return {who: racer(built, schedule) for who, schedule in schedules.items()}


def megabytes(racers, who):
    return racers[who].compiled().plan.arena_bytes / 1e6


def limit(limit_mb):
    return MemoryLimit(limit_mb=limit_mb)


@pytest.mark.slow(1)
def test_without_a_limit_and_within_it_all_stay_as_they_are(racers):
    for limit_mb in (None, 100):
        given = limit(limit_mb)
        assert given.fitting(racers) == racers
        assert given.notes == []


def test_stages_run_in_order_where_memory_is_fullest(built, racers):
    least, most = megabytes(racers, Contestant.SEQUENTIAL), megabytes(racers, Contestant.GREEDY)
    assert least < most
    given = limit(most * 0.99)
    found = given.fitting(racers)
    narrow = found[Contestant.GREEDY]
    assert megabytes(found, Contestant.GREEDY) <= most * 0.99
    assert narrow.prices_ns == ()
    before, after = (
        [len(stage.groups) for stage in each.schedule.stages if len(stage.groups) > 1]
        for each in (racers[Contestant.GREEDY], narrow)
    )
    assert len(after) == len(before) - 1
    assert after.count(2) == before.count(2) > 0  # memory is not full there
    (note,) = [each for each in given.notes if "greedy" in each]
    assert re.fullmatch(
        rf"activations of greedy take {most:.2f} MB: for {most * 0.99:g}, \d of its concurrent "
        "stages run in order",
        note,
    )
    data = np.random.default_rng(1).random(SHAPE, dtype="float32")
    outputs = []
    for each in (found[Contestant.SEQUENTIAL], narrow):
        with each.compiled().executor() as executor:
            executor.run(data=data)
            outputs.append(executor.get_output(0).numpy())
    np.testing.assert_array_equal(*outputs)


def test_what_is_left_of_a_schedule_may_be_sequential_order_which_races_already(racers):
    least = megabytes(racers, Contestant.SEQUENTIAL)
    given = limit(least)
    assert set(given.fitting(racers)) == {Contestant.SEQUENTIAL}
    assert [each.split(" take")[0] for each in given.notes] == [
        "activations of greedy",
        "activations of ios + list",
    ]
    assert all(each.endswith(f"more than {least:g}: it does not race") for each in given.notes)


@pytest.mark.slow
def test_tune_keeps_the_limit_and_says_what_sequential_order_needs(tmp_path):
    mod, params = wide_then_wider()
    options = tvm_ios.TuneOptions(
        search=tvm_ios.SearchOptions(list_only=True),
        build=tvm_ios.BuildOptions(libraries=()),
        compare=CompareOptions(rounds=9, min_repeat_ms=0.1),
    )
    tune = partial(
        tvm_ios.tune, mod, params, TARGET, lanes=2, database=tmp_path / "p", options=options
    )
    report = tune(memory_limit_mb=1).report()
    assert report.sequential_arena_bytes <= report.arena_bytes <= 1e6
    needed = f"in sequential order {report.sequential_arena_bytes / 1e6:.2f} MB"
    assert needed in report.as_text()
    with pytest.raises(OptionError, match=r"memory_limit_mb is 0.01, but activations need 0\.\d+"):
        tune(memory_limit_mb=0.01)
