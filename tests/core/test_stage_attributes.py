from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.core.stage_attributes import (
    PlacedKernel,
    has_schedule,
    is_stage,
    kernels_of_stage,
    main_attributes,
    schedule_from,
    stage_attributes,
)
from tvm_ios.errors import ModelError
from tvm_ios.search.baselines import greedy_schedule

GRAPH = OperatorGraph("net", (op("a"), op("b", 0), op("c", 0), op("d", 1, 2)))
SCHEDULE = replace(
    greedy_schedule(GRAPH),
    latency_ns=9,
    priced_by="guess",
    operator_ns=(1, 2, 3, 4),
    unsplit=(1,),
    libraries=(LibraryOperators("onednn", (0, 3)),),
)


def _stages():
    names = SCHEDULE.operator_names
    return {
        f"stage_{number}": stage_attributes(
            number,
            stage.strategy,
            [[names[index] for index in group] for group in stage.groups],
            [names[index] for index in stage.operators],
        )
        for number, stage in enumerate(SCHEDULE.stages)
    }


def test_a_schedule_is_read_back():
    assert schedule_from(main_attributes(SCHEDULE), _stages()) == SCHEDULE


def test_main_and_stages_are_told_apart():
    assert has_schedule(main_attributes(SCHEDULE))
    assert not has_schedule(None)
    assert all(map(is_stage, _stages().values()))
    assert not is_stage(main_attributes(SCHEDULE))


def test_kernels_know_their_groups():
    kernels = kernels_of_stage(_stages()["stage_1"], "stage_1")
    assert kernels == tuple(
        PlacedKernel(name=name, members=(name,), stage=1, group=group)
        for group, name in enumerate("bc")
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tvm_ios_version": 2}, "version 2 of the stage attributes"),
        ({"tvm_ios_operators": "a, b, c"}, "names operator 'd', which main does not list"),
        ({"tvm_ios_operator_ns": "1, x"}, "has 'x' in the attribute 'tvm_ios_operator_ns'"),
    ],
)
def test_attributes_that_contradict_are_refused(changed, message):
    with pytest.raises(ModelError, match=message):
        schedule_from(main_attributes(SCHEDULE) | changed, _stages())
