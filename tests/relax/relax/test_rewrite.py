from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, answers, squeezenet
from tests.relax.relax.modules import Branches, Dynamic, Opaque
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import ModelError, ScheduleError
from tvm_ios.relax.extract import extract
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.relax.stage_ir import is_partitioned, read_schedule
from tvm_ios.search.baselines import greedy_schedule, make_schedule, sequential_schedule

EXPECTED = """
    @R.function(private=True)
    def tvm_ios_stage_0(x: R.Tensor((4, 8), "float32")) -> R.Tuple(
        R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")
    ):
        R.func_attr({
            "tvm_ios_groups": "twice_0 | raised_0",
            "tvm_ios_operators": "twice_0, raised_0",
            "tvm_ios_stage": 0,
            "tvm_ios_strategy": "concurrent",
        })
        cls = Module
        with R.dataflow():
            left = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4, 8), "float32"))
            right = R.call_tir(cls.raised, (x,), out_ty=R.Tensor((4, 8), "float32"))
            gv = (left, right)
            R.output(gv)
        return gv

    @R.function(private=True)
    def tvm_ios_stage_1(
        twice_0: R.Tensor((4, 8), "float32"), raised_0: R.Tensor((4, 8), "float32")
    ) -> R.Tensor((4, 8), "float32"):
        R.func_attr({
            "tvm_ios_groups": "added_0",
            "tvm_ios_operators": "added_0",
            "tvm_ios_stage": 1,
            "tvm_ios_strategy": "concurrent",
        })
        cls = Module
        with R.dataflow():
            whole = R.call_tir(
                cls.added, (twice_0, raised_0), out_ty=R.Tensor((4, 8), "float32")
            )
            gv = whole
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        R.func_attr({
            "tvm_ios_fingerprint": "FINGERPRINT",
            "tvm_ios_graph": "main",
            "tvm_ios_latency_ns": "",
            "tvm_ios_operator_ns": "",
            "tvm_ios_operators": "twice_0, raised_0, added_0",
            "tvm_ios_scheduler": "greedy",
            "tvm_ios_unsplit": "",
            "tvm_ios_version": 1,
        })
        cls = Module
        with R.dataflow():
            both = cls.tvm_ios_stage_0(x)
            left = both[0]
            right = both[1]
            whole = cls.tvm_ios_stage_1(left, right)
            gv = whole
            R.output(gv)
        return gv
"""


@pytest.fixture(scope="module")
def net():
    """A small SqueezeNet, prepared, and a value for it."""
    mod, params, value = squeezenet()
    return prepare(mod, params, TARGET), value


def test_stages_become_functions():
    schedule = greedy_schedule(extract(Branches).graph)
    kernels = Branches.script().partition("    @R.function")[0]
    stages = EXPECTED.replace("FINGERPRINT", schedule.graph_fingerprint)
    after = rewrite(Branches, schedule)
    tvm.ir.assert_structural_equal(after, tvm.script.from_source(kernels + stages))
    assert is_partitioned(after)
    assert not is_partitioned(Branches)


@pytest.mark.slow(5)
@pytest.mark.parametrize(
    "make", [greedy_schedule, pytest.param(sequential_schedule, marks=pytest.mark.full)]
)
def test_schedules_travel_with_the_module(net, make):
    prepared, value = net
    schedule = replace(make(prepared.extraction.graph), latency_ns=12, priced_by="guess")
    after = rewrite(prepared.module, schedule)
    relax.analysis.check_well_formed(after)
    read = tvm.script.from_source(after.script(show_meta=True))
    tvm.ir.assert_structural_equal(read, after)
    loaded = tvm.ir.load_json(tvm.ir.save_json(after))
    tvm.ir.assert_structural_equal(loaded, after)
    assert read_schedule(read) == read_schedule(loaded) == schedule
    np.testing.assert_array_equal(answers(after, value), answers(prepared.module, value))


def test_opaque_calls_run_where_they_were():
    prepared = prepare(Opaque, None, TARGET)
    after = rewrite(prepared.module, greedy_schedule(prepared.extraction.graph))
    x = np.arange(-16, 16, dtype="float32").reshape(4, 8)
    np.testing.assert_array_equal(answers(after, x)[0], np.maximum(-2 * x, 0))


def test_a_result_that_nobody_reads_stays():
    script = Branches.script().replace("(left, right)", "(left, left)")
    unread = tvm.script.from_source(script)
    schedule = greedy_schedule(extract(unread).graph)
    assert read_schedule(rewrite(unread, schedule)) == schedule
    assert len(extract(rewrite(unread, schedule)).graph) == 3


def test_what_cannot_be_rewritten_is_refused():
    graph = extract(Branches).graph
    schedule = greedy_schedule(graph)
    with pytest.raises(ModelError, match="partitioned already"):
        rewrite(rewrite(Branches, schedule), schedule)
    merged = make_schedule(graph, (Stage(((0,), (1,)), Strategy.MERGE), Stage(((2,),))), "test")
    with pytest.raises((ModelError, ScheduleError), match="merge"):
        rewrite(Branches, merged)
    with pytest.raises(ModelError, match="no operators to schedule: parameter 'x' has the type"):
        rewrite(Dynamic, schedule)
    with pytest.raises(ModelError, match="is not partitioned into stages"):
        read_schedule(Branches)
