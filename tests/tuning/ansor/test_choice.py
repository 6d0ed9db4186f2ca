"""Which kernels of Ansor are kept: plain loops lose against those that TVM has by itself."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tvm
from tvm import auto_scheduler, relay

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.devices.local import LocalCpu
from tvm_ios.host import host_target
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.build_choice import choose_build
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.report.records_in_force import MissingReason, RecordFormat
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.tuning.ansor.backend import AnsorBackend
from tvm_ios.tuning.ansor.choice import JudgedRecords, judged_records, operator_workloads
from tvm_ios.tuning.ansor.history import recorded_workloads
from tvm_ios.tuning.ansor.tasks import extract_tasks
from tvm_ios.tuning.tuned_kernels import FASTER_ONLY, TuningRequest, tuned_kernels

TARGET = resolve_target(f"{host_target()} -opt-level=0")


def write_plain_loops(log, tasks):
    """Records of schedules that do nothing: no tiles, no vectors, no threads."""
    states = [one.task.compute_dag.get_init_state() for one in tasks]
    auto_scheduler.save_records(
        str(log),
        [
            auto_scheduler.MeasureInput(one.task, state)
            for one, state in zip(tasks, states, strict=True)
        ],
        [auto_scheduler.MeasureResult([1e-3], 0, "", 0.1, time.time()) for _ in tasks],
    )


@pytest.fixture(scope="module")
def untuned(branching):
    return build_model(*branching, TARGET)


@pytest.fixture(scope="module")
def tasks(branching):
    return extract_tasks(*branching, TARGET, cores=2)


@pytest.mark.slow
def test_operators_have_the_tasks_of_the_network(untuned, tasks):
    keys = operator_workloads(untuned.extraction, TARGET)
    known = {one.workload: one.weight for one in tasks}
    for operator, key in zip(untuned.graph.operators, keys, strict=True):
        if operator.convolution is not None:
            assert key in known
    convolutions = [one for one in tasks if "conv2d" in one.name]
    for one in convolutions:
        assert keys.count(one.workload) == one.weight


@pytest.mark.slow
def test_slow_kernels_are_left_out_and_the_network_stays_right(branching, untuned, tasks, tmp_path):
    log = tmp_path / "plain.json"
    convolutions = [one for one in tasks if "conv2d" in one.name]
    write_plain_loops(log, convolutions)
    backend = AnsorBackend()
    with backend.applied([log]):
        tuned = build_model(*branching, TARGET)
    recorded = recorded_workloads([log], TARGET)
    with LocalCpu().open() as session:
        judged = judged_records(untuned, tuned, recorded, lanes=1, session=session)
    slower = judged.slower
    heaviest = max(convolutions, key=lambda one: one.flop)
    assert heaviest.workload in slower
    assert judged.workloads == {one.workload for one in convolutions}
    with backend.applied([log], without=slower):
        context = auto_scheduler.DispatchContext.current
        assert context._query_inside(TARGET, heaviest.workload, "") is None
        mended = build_model(*branching, TARGET)
    value = np.random.default_rng(1).uniform(-1, 1, (1, 16, 8, 8)).astype("float32")
    outputs = []
    for built in (untuned, mended):
        executor = lower_schedule(built, sequential_schedule(built.graph), lanes=1).executor()
        executor.set_input("data", value)
        executor.run()
        outputs.append(executor.get_output(0).numpy())
    assert np.allclose(*outputs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_session_builds_without_them_too_and_says_so(branching, untuned, tasks, tmp_path):
    log = tmp_path / "plain.json"
    write_plain_loops(log, [one for one in tasks if "conv2d" in one.name])
    brief = CompareOptions(rounds=6, min_repeat_ms=0.5, mode=ModeOptions(patience_s=1.0))
    request = TuningRequest(records=(log,))
    call = MeasuringCall.here(lanes=1, database=tmp_path / "prices.sqlite", compare=brief)
    with tuned_kernels(untuned, *branching, request, call) as kernels:
        assert kernels.layout != "auto_scheduler"
    notes = "\n".join(kernels.notes)
    assert "kernels are slower than TVM's own" in notes
    assert f"{FASTER_ONLY}: " in notes
    found = {kernel.operators[0]: kernel.found for kernel in kernels.records.kernels}
    convolutions = {each for name, each in found.items() if name.startswith("conv2d")}
    if kernels.layout is None:
        assert convolutions == {MissingReason.NOT_FASTER}
    else:
        assert MissingReason.SLOWER in convolutions <= {MissingReason.SLOWER, *RecordFormat}
    others = {each for name, each in found.items() if not name.startswith("conv2d")}
    assert others == {MissingReason.NO_RECORD}


@pytest.mark.slow
def test_builds_of_two_models_have_nothing_in_common(untuned):
    data = relay.var("data", shape=(1, 16))
    softmax = tvm.IRModule.from_expr(relay.Function([data], relay.nn.softmax(data)))
    other = build_model(softmax, {}, TARGET)
    keys = [key for key in operator_workloads(other.extraction, TARGET) if key is not None]
    with LocalCpu().open() as session:
        judged = judged_records(untuned, other, keys, lanes=1, session=session)
    assert judged == JudgedRecords(frozenset(keys), slower=frozenset())


def test_records_of_another_device_are_none_of_this_one(tmp_path):
    line = (
        '{{"i": [["[\\"{key}\\", 1]", "{target}", [1, 64, 64, 0, 0, 0, 0, 0], "", 2, []], '
        '[[], []]], "r": [[0.001], 0, 1.0, 1], "v": "v0.6"}}\n'
    )
    log = tmp_path / "shared.json"
    log.write_text(
        line.format(key="here", target="llvm -mcpu=core2")
        + line.format(key="elsewhere", target="cuda -arch=sm_90")
        + line.format(key="unknown", target="llvm -of-another-tvm=1")
    )
    assert recorded_workloads([log], TARGET) == {'["here", 1]'}


@pytest.mark.slow
def test_records_of_another_network_are_told_of_and_cost_no_race(
    branching, untuned, tmp_path, monkeypatch
):
    data, weight = (relay.var(name, shape=(24, 24)) for name in ("data", "weight"))
    product = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.dense(data, weight)))
    log = tmp_path / "plain.json"
    write_plain_loops(log, extract_tasks(product, {}, TARGET, cores=2))
    raced = []
    monkeypatch.setattr(
        "tvm_ios.tuning.tuned_kernels.choose_build",
        lambda builds, call: raced.append(tuple(builds)) or choose_build(builds, call),
    )
    call = MeasuringCall.here(lanes=1, database=tmp_path / "prices.sqlite")
    with tuned_kernels(untuned, *branching, TuningRequest(records=(log,)), call) as kernels:
        assert kernels.built is untuned
    assert raced == [("untuned",)]
    assert kernels.notes == ("no records are for kernels of this network, so none are used",)
    assert {kernel.found for kernel in kernels.records.kernels} == {MissingReason.NO_RECORD}
