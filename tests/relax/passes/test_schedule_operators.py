from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, Network, answers, random_network, squeezenet
from tests.relax.relax.modules import Branches, Controlled, Dynamic, Opaque
from tvm_ios.compile.lower import lower_partitioned
from tvm_ios.core.conversion import Conversion
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.errors import ModelError, OptionError, ScheduleError
from tvm_ios.passes import PadChannels, PartitionStages, PrepareModule, ScheduleOperators
from tvm_ios.relax.extract import extract
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.relax.stage_ir import read_schedule
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios


class OneEach:
    """Price of a stage: that of its longest group, one an operator."""

    def price(self, graph, stages):
        return [100_000 * max(map(len, stage.groups)) for stage in stages]

    def operators_ns(self, graph, lanes):
        return [100_000] * len(graph)


@pytest.fixture(scope="module")
def net():
    """A small SqueezeNet: module, parameters, a value."""
    return squeezenet()


@pytest.mark.slow(3)
@pytest.mark.parametrize(
    ("scheduler", "make"),
    [
        ("greedy", greedy_schedule),
        pytest.param("sequential", sequential_schedule, marks=pytest.mark.full),
    ],
)
def test_baselines(net, scheduler, make):
    mod, params, value = net
    with tvm.transform.PassContext(opt_level=3):
        after = ScheduleOperators(target=TARGET, params=params, scheduler=scheduler)(mod)
    prepared = prepare(mod, params, TARGET)
    tvm.ir.assert_structural_equal(after, rewrite(prepared.module, make(prepared.extraction.graph)))
    np.testing.assert_array_equal(answers(after, value), answers(prepared.module, value))


@pytest.mark.slow(1)
def test_ios_runs_side_by_side_what_pays(net):
    mod, params, _ = net
    options = {"target": TARGET, "params": params, "cost_model": OneEach()}
    schedule = read_schedule(ScheduleOperators(**options)(mod))
    graph = prepare(mod, params, TARGET).extraction.graph
    assert schedule == search_ios(graph, OneEach()).schedule
    assert max(len(stage.groups) for stage in schedule.stages) == 2


@pytest.mark.slow(1)
def test_lists(net):
    mod, params, _ = net
    options = {"params": params, "scheduler": "list", "cost_model": OneEach(), "lanes": 2}
    schedule = read_schedule(ScheduleOperators(target=TARGET, **options)(mod))
    assert (schedule.scheduler, schedule.num_home_lanes) == ("list", 2)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["ios", "list"])
def test_prices_are_measured_and_kept(tmp_path, scheduler):
    options = {"scheduler": scheduler, "database": tmp_path / "prices.sqlite", "lanes": 2}
    schedule = read_schedule(ScheduleOperators(target=TARGET, **options)(Branches))
    assert schedule.scheduler == scheduler
    assert schedule.latency_ns > 0
    assert not schedule.priced_by
    kept = ProfileDatabase(tmp_path / "prices.sqlite").count()
    assert kept >= 3
    again = read_schedule(ScheduleOperators(target=TARGET, **options)(Branches))
    assert again.scheduler == scheduler
    # On a busy machine, who is helped by idle lanes is chosen anew, and has other prices.
    assert ProfileDatabase(tmp_path / "prices.sqlite").count() >= kept


def test_in_a_sequence_of_passes():
    passes = [
        PrepareModule(target=TARGET),
        relax.transform.DeadCodeElimination(),
        PartitionStages(schedule=greedy_schedule(extract(Branches).graph)),
        ScheduleOperators(target=TARGET, scheduler="sequential"),
    ]
    after = tvm.transform.Sequential(passes)(Branches)
    assert read_schedule(after).scheduler == "greedy"  # a partitioned module keeps its schedule


def test_opaque_calls_stay(net):
    after = ScheduleOperators(target=TARGET, scheduler="greedy")(Opaque)
    assert len(read_schedule(after).stages) == 3
    x = np.arange(-16, 16, dtype="float32").reshape(4, 8)
    np.testing.assert_array_equal(answers(after, x)[0], np.maximum(-2 * x, 0))


@pytest.mark.parametrize("module", [Dynamic, Controlled])
def test_what_no_lane_runs_stays_as_it_is(module):
    after = ScheduleOperators(target=TARGET, scheduler="greedy")(module)
    tvm.ir.assert_structural_equal(after, module)


@pytest.mark.slow(1)
def test_a_module_for_a_gpu_has_stages_and_kernels_without_loops(net):
    mod, params, _ = net
    target = "cuda -arch=sm_90"
    after = ScheduleOperators(target=target, params=params, scheduler="greedy")(mod)
    prepared = prepare(mod, params, target)
    assert prepared.module.same_as(prepared.with_loops().module)
    assert read_schedule(after) == greedy_schedule(prepared.extraction.graph)
    rewritten = rewrite(prepared.module, read_schedule(after), target)
    tvm.ir.assert_structural_equal(after, rewritten)


def test_what_relax_cannot_do_is_refused():
    with pytest.raises(ModelError, match="is neither a CPU nor a GPU of NVIDIA"):
        ScheduleOperators(target="opencl")
    with pytest.raises(OptionError, match="PadChannels works on Relay only"):
        PadChannels(target=TARGET)(Branches)
    with pytest.raises(OptionError, match="leave out conversion"):
        PrepareModule(target=TARGET, conversion=Conversion(mixed_precision=True))(Branches)


@pytest.mark.slow
def test_libraries_compute_what_they_are_faster_at(tmp_path):
    """32 channels, at which oneDNN takes a fraction of TVM's time on any machine."""
    network = Network(1, 32, 14, 14)
    mod = network.build(lambda net: net.conv(net.conv(net.x, 32, 3), 32, 3))
    options = {"scheduler": "list", "database": tmp_path / "prices.sqlite", "lanes": 1}
    scheduled = {
        names: ScheduleOperators(target=TARGET, libraries=names, **options)(mod)
        for names in ((), ("onednn",))
    }
    assert read_schedule(scheduled[()]).libraries is None
    (row,) = read_schedule(scheduled["onednn",]).libraries
    assert row.library == "onednn"
    after = scheduled["onednn",]
    compiled = lower_partitioned(after, None, TARGET, lanes=1, libraries=(OnednnLibrary(),))
    chosen = [compiled.graph.operators[index].name for index in row.operators]
    called = [launch.operator for launch in compiled.plan.launches if launch.call is not None]
    assert called == chosen


def test_errors_of_ours_and_of_tvm_have_one_name_and_are_told_apart():
    """Rules of loops wait for TVM's ScheduleError, and passes carry ours."""
    mod, _ = random_network(4)
    ScheduleOperators(target=TARGET, scheduler="greedy")(mod)
    other = greedy_schedule(extract(Branches).graph)
    with pytest.raises(ScheduleError, match="does not fit"):
        PartitionStages(schedule=other)(prepare(mod, None, TARGET).module)
