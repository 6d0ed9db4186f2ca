from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.errors import ModelError, OptionError, ScheduleError
from tvm_ios.passes.partition_stages import PartitionStages
from tvm_ios.passes.prepare_module import PrepareModule
from tvm_ios.relay.extract import extract
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import read_schedule
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


@pytest.mark.slow
def test_before_and_expected(case):
    module, params = case.network()
    prepared = PrepareModule(target=case.target, params=params)(module)
    schedule = greedy_schedule(extract(prepared).graph)
    sequence = tvm.transform.Sequential([PartitionStages(schedule=schedule)])
    after = sequence(prepared)
    tvm.ir.assert_structural_equal(after, rewrite(prepared, schedule))
    assert read_schedule(after) == schedule
    np.testing.assert_array_equal(case.run(after), case.expected())


def test_a_module_that_is_not_prepared_is_refused(case):
    module, params = case.network()
    prepared = PrepareModule(target=case.target, params=params)(module)
    schedule = sequential_schedule(extract(prepared).graph)
    with pytest.raises(ModelError, match="not fused"):
        PartitionStages(schedule=schedule)(module)


def test_what_is_no_schedule_is_refused_where_the_pass_is_made():
    with pytest.raises(OptionError, match=r"schedule is 'greedy\.json'; give an InterOpSchedule"):
        PartitionStages(schedule="greedy.json")


def test_values_in_bfloat16_are_refused_where_the_pass_is_made(case):
    module, params = case.network()
    graph = extract(PrepareModule(target=case.target, params=params)(module)).graph
    low = replace(sequential_schedule(graph), low=LowPrecision(results=(), weights=(0,)))
    with pytest.raises(OptionError, match="values in bfloat16.*; give compile_schedule"):
        PartitionStages(schedule=low)


def test_a_schedule_for_another_graph_is_refused(case):
    module, params = case.network()
    prepared = PrepareModule(target=case.target, params=params)(module)
    with tvm.transform.PassContext(opt_level=1):
        other = PrepareModule(target=case.target, params=params)(module)
    schedule = sequential_schedule(extract(other).graph)
    with pytest.raises(ScheduleError, match="search again"):
        PartitionStages(schedule=schedule)(prepared)
