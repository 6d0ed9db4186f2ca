"""Decisions find their operators in the model of a call, and are built in their form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.compile.built_model import build_model, build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.core.schedule import LibraryOperators, Stage, Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.profile.build_candidates import BuildCandidate
from tvm_ios.profile.decisions.fit_decisions import DecisionFitting
from tvm_ios.profile.decisions.known_forms import prepared_in_form
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.extract import extract
from tvm_ios.relay.layouts.image_form import in_form
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.report.contestants import Contestant
from tvm_ios.runtime.artifact.decisions import Decisions, Origin
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.time_budget import TimeBudget

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
LOW = Precision(dtype="bfloat16")
ORIGIN = Origin(
    target=TARGET, lanes=4, machine={"processor": "a colleague's"}, versions={}, latency_ns=10**6
)


def decided(built, schedule=None):
    return Decisions(
        schedule=replace(schedule or greedy_schedule(built.graph), form=built.form),
        graph=built.graph,
        origin=ORIGIN,
    )


@pytest.fixture(scope="module")
def built(narrow):
    return build_model(*narrow, TARGET)


@pytest.fixture
def fitting(built, narrow, tmp_path):
    mod, params = narrow
    model = BuildCandidate(mod=mod, params=params)
    return DecisionFitting(
        built=built,
        prepared_in=prepared_in_form(model, built.prepared.target, pad_channels=False),
        call=MeasuringCall.here(lanes=1, database=tmp_path / "prices.sqlite"),
        pad_merged_kernels=True,
    )


def fitted(fitting, decisions):
    found = fitting.of({"peer.json": decisions})
    assert not found.unfit
    return found.schedules[Contestant.GIVEN]


def joined(names, *, swapped):
    """A convolution of each size, joined in either order."""
    data = relay.var("data", shape=(1, 16, 8, 8))
    weights = [relay.var(name, shape=(16, 16, n, n)) for name, n in zip(names, (1, 3), strict=True)]
    one, three = (
        relay.nn.relu(
            relay.nn.conv2d(data, each, channels=16, kernel_size=(n, n), padding=(n // 2, n // 2))
        )
        for each, n in zip(weights, (1, 3), strict=True)
    )
    both = relay.concatenate([three, one] if swapped else [one, three], axis=1)
    random = np.random.default_rng(0)
    params = {
        name: tvm.nd.array(random.random((16, 16, n, n), dtype="float32"))
        for name, n in zip(names, (1, 3), strict=True)
    }
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(both))
    return tvm.IRModule.from_expr(relay.Function([data, *weights], pooled)), params


@pytest.mark.slow(1)
def test_a_renamed_model_is_found_with_its_makers(built, fitting):
    schedule = replace(greedy_schedule(built.graph), unsplit=(1,))
    found = fitted(fitting, decided(built, schedule))
    assert found.built is built
    assert (found.schedule.stages, found.schedule.unsplit) == (schedule.stages, (1,))
    assert "made on a colleague's, lanes: 4, 1.0000 ms a run" in found.told


@pytest.mark.slow
def test_another_door_with_another_order_is_found(fitting):
    there = build_model(*joined(("a", "b"), swapped=False), TARGET)
    here = build_model(*joined(("left", "right"), swapped=True), TARGET)
    costs = tuple(each.flops for each in there.graph.operators)
    schedule = replace(sequential_schedule(there.graph), operator_ns=costs)
    found = fitted(replace(fitting, built=here, prepared_in=None), decided(there, schedule))
    assert found.schedule.operator_ns == tuple(each.flops for each in here.graph.operators)
    verify_schedule(found.schedule, here.graph)
    lower_schedule(found.built, found.schedule, lanes=1)


@pytest.mark.slow(2)
def test_a_machine_with_other_vectors_is_understood(built, narrow, fitting):
    wider = extract(prepare(*narrow, "llvm -mcpu=skylake-avx512").module).graph
    assert wider.fingerprint() != built.graph.fingerprint()
    decisions = Decisions(schedule=greedy_schedule(wider), graph=wider, origin=ORIGIN)
    found = fitted(replace(fitting, prepared_in=None), decisions)
    assert "operators were matched by structure" in found.told
    lower_schedule(built, found.schedule, lanes=1)


@pytest.mark.slow
def test_another_form_is_built_for_them(narrow, fitting):
    form = ImageForm(layouts=(BLOCKS, CHANNELS_LAST, CHANNELS_LAST))
    module, _ = in_form(*narrow, form, TARGET, pads=False)
    there = replace(build_model(module, None, TARGET), form=form)
    found = fitted(fitting, decided(there))
    assert found.built.form == form
    assert found.built.graph.fingerprint() == there.graph.fingerprint()
    assert "build given decisions" in fitting.call.clock.phase_s
    # Where it may not be, or there is no time, they race in the form of here, or do not.
    for strict in (
        replace(fitting, prepared_in=None),
        replace(fitting, call=replace(fitting.call, budget=TimeBudget(1e-9))),
    ):
        result = strict.of({"peer.json": decided(there)})
        assert all(each.built is fitting.built for each in result.schedules.values())
        assert len(result.schedules) + len(result.unfit) == 1


@pytest.mark.slow(1)
def test_operators_of_a_library_that_is_missing_are_tvms(built, fitting):
    rows = (LibraryOperators("onednn", (0, 1)), LibraryOperators("unheard of", (2,)))
    decisions = decided(built, replace(greedy_schedule(built.graph), libraries=rows))
    found = fitted(fitting, decisions)
    assert not found.schedule.libraries
    assert "oneDNN computes 2 operators there and none here, TVM's kernels do" in found.told
    assert "unheard of computes 1 operators there" in found.told
    lower_schedule(built, found.schedule, lanes=1)
    able = replace(fitting, built=replace(built, libraries=(OnednnLibrary(),)))
    assert fitted(able, decisions).schedule.libraries == rows[:1]


@pytest.mark.slow(1)
def test_decisions_that_do_not_fit_are_told(built, branching_built, fitting):
    merged = replace(
        sequential_schedule(built.graph),
        stages=(
            Stage(((0,), (1,)), Strategy.MERGE),
            *(Stage(((n,),)) for n in range(2, len(built.graph))),
        ),
    )
    result = fitting.of({"other.json": decided(branching_built), "good.json": decided(built)})
    (line,) = result.unfit
    assert line.startswith("other.json: does not race: its model has another structure (")
    assert list(result.schedules) == [Contestant.GIVEN_2]
    with exact_bits(True):
        (line,) = fitting.of({"merged.json": decided(built, merged)}).unfit
    assert "it merges convolutions, which exact=True leaves out" in line


def in_bfloat16(narrow, form=None):
    """A build in bfloat16, of the model as it is or in another form."""
    module, params = narrow if form is None else (in_form(*narrow, form, TARGET, pads=False)[0], {})
    exact = prepare(module, params, TARGET)
    made = build_prepared(with_low_precision(exact, low_values(exact.extraction).most()))
    return replace(made, form=form)


def decided_low(there):
    return decided(there, replace(greedy_schedule(there.graph), low=there.prepared.low))


@pytest.mark.slow(1)
def test_values_in_bfloat16_do_not_race_in_a_call_of_float32(narrow, fitting):
    result = fitting.of({"peer.json": decided_low(in_bfloat16(narrow))})
    assert not result.schedules
    assert result.unfit == (
        "peer.json: does not race: its values are bfloat16, and this call's are float32, which is "
        "more exact; give precision='bfloat16' (--precision bfloat16) to have it race",
    )


@pytest.mark.slow(2)
def test_values_in_bfloat16_are_those_of_the_call_in_its_form(narrow, built, fitting):
    low = replace(fitting, precision=LOW)
    there = in_bfloat16(narrow)
    for mine in (built, there):
        found = fitted(replace(low, built=mine), decided_low(there))
        assert found.built is mine
        assert found.precision is None
        assert lower_schedule(mine, found.schedule, lanes=1).schedule.low == mine.prepared.low


@pytest.mark.slow(3)
def test_in_another_form_their_error_is_checked(narrow, fitting):
    there = in_bfloat16(narrow, ImageForm(layouts=(BLOCKS, CHANNELS_LAST, CHANNELS_LAST)))
    found = fitted(replace(fitting, precision=LOW), decided_low(there))
    assert found.built.prepared.low == there.prepared.low
    assert found.precision.is_low
    (error,) = found.precision.errors
    assert 1e-5 < error < 0.03
    strict = replace(fitting, precision=replace(LOW, max_relative_error=1e-6))
    (line,) = strict.of({"peer.json": decided_low(there)}).unfit
    assert "in their form its error is above the bound of 1e-06" in line
