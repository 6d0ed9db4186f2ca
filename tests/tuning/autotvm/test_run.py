"""AutoTVM's loop at a gate: the order of stages, updates, and devices that are lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from tvm import autotvm
from tvm.autotvm.measure import MeasureInput, MeasureResult

from tests.tuning.autotvm.test_backend import QUICK, TARGET, measured, one_convolution
from tvm_ios.support.stage_gate import GrantedStage
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.autotvm.measure import Measuring
from tvm_ios.tuning.autotvm.run import TuningRun, outcome_row
from tvm_ios.tuning.autotvm.tasks import extract_tasks
from tvm_ios.tuning.autotvm.tuners import end_workers, fits_next, plan_tuner, use_cores
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.guard import MARK, guarded_workers, marked_processes
from tvm_ios.tuning.options import TuningOptions

BATCH = ["search", "build", "profile"]


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_stages_come_in_order_and_records_before_the_device_is_free(recording_gate, tmp_path):
    gate, log = recording_gate(), tmp_path / "gated.log"
    written = []
    tell = gate.tell
    gate.tell = lambda progress: (written.append(len(measured(log))), tell(progress))
    options = TuningOptions(tuner="grid", trials=3, **QUICK)
    AutoTvmBackend(gate=gate).tune(one_convolution(), {}, TARGET, log, options)
    assert gate.kinds == ["prepare", *BATCH, *BATCH]
    assert [event for event in gate.events if event.startswith("tell") or "profile" in event] == [
        "begin profile",
        "tell 2 of 3",
        "end profile",
        "begin profile",
        "tell 3 of 3",
        "end profile",
    ]
    assert written == [2, 3]
    builds = [need for need in gate.needs if need.kind.value == "build"]
    assert [(need.least_cores, need.most_cores) for need in builds] == [(1, 2), (1, 1)]
    assert len({need.task for need in builds}) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_waiting_for_others_costs_no_trials(busy_gate, tmp_path):
    options = TuningOptions(tuner="grid", trials=3, time_budget_s=40_000.0, **QUICK)
    log = tmp_path / "waited.log"
    outcome = AutoTvmBackend(gate=busy_gate).tune(one_convolution(), {}, TARGET, log, options)
    assert outcome.trials == 3
    assert not any("time budget" in note for note in outcome.notes)


@pytest.mark.slow
def test_the_tracker_and_the_server_of_this_machines_device_are_one_process():
    here, granted = DeviceOptions(), GrantedStage(cores=(0,))
    with guarded_workers():
        with Measuring(options=TuningOptions(), device=here, gpu=False, width=1) as measuring:
            assert not list(measuring.run(granted, [], []))
            assert len(marked_processes(os.environ[MARK])) == 1
        assert not marked_processes(os.environ[MARK])


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_cost_model_that_a_log_teaches_does_so_in_a_stage(recording_gate, tmp_path):
    log = tmp_path / "learning.log"
    for trials, first in ((2, ["prepare"]), (3, ["prepare", "update"])):
        gate = recording_gate()
        options = TuningOptions(tuner="xgb", trials=trials, **QUICK)
        AutoTvmBackend(gate=gate).tune(one_convolution(), {}, TARGET, log, options)
        assert gate.kinds == [*first, *BATCH]
    assert gate.events.count("tell 3 of 3") == 1


class NothingBuilds(Measuring):
    """Every candidate fails; notes whether it would have been built as AutoTVM does in tuning."""

    def build(self, granted, inputs):
        self.noted = autotvm.GLOBAL_SCOPE.in_tuning
        return [MeasureResult(("", "no code"), 2, 0.1, 0.0)] * len(inputs)


@pytest.mark.slow
def test_what_a_log_teaches_does_not_end_tuning_mode(recording_gate, tmp_path):
    (task,) = extract_tasks([one_convolution()], TARGET)
    known = MeasureInput(TARGET, task.task, task.task.config_space.get(0))
    history = [(known, MeasureResult((1e-3,), 0, 0.1, 0.0))]
    options = TuningOptions(tuner="xgb", trials=2)
    run = TuningRun(
        records=tmp_path / "new.log",
        options=options,
        gate=recording_gate(),
        progress=None,
        time_left=TimeBudget(),
        begin=0.0,
        rows=[outcome_row(task, history)],
        total=1,
    )
    plan = plan_tuner(task, history, options, "xgb")
    measuring = NothingBuilds(options=options, device=DeviceOptions(), gpu=False, width=1)
    with measuring:
        run.tune(0, task, plan, measuring)
    assert plan.learns_first
    assert measuring.noted
    assert not autotvm.GLOBAL_SCOPE.in_tuning


@pytest.mark.parametrize(("done", "told"), [(2, 1), (3, 0)])
def test_a_budget_that_ends_with_the_last_batch_has_cut_nothing(
    recording_gate, tmp_path, done, told
):
    run = TuningRun(
        records=tmp_path / "none.log",
        options=TuningOptions(time_budget_s=1.0),
        gate=recording_gate(),
        progress=None,
        time_left=TimeBudget(),
        begin=0.0,
        rows=[],
        total=3,
        done=done,
        late=True,
    )
    assert sum("ended tuning after 2 of 3 candidates" in note for note in run.notes()) == told
    assert len(list(run.notes())) == told


def test_only_an_update_that_trains_is_a_stage():
    (task,) = extract_tasks([one_convolution()], TARGET)
    options = TuningOptions(trials=200)
    listed = plan_tuner(task, [], options, "layout").make(1)
    assert not fits_next(listed, [None] * 1000)
    tuner = plan_tuner(task, [], options, "xgb").make(1)
    size = tuner.plan_size
    assert not fits_next(tuner, [None] * (size - 1))
    assert fits_next(tuner, [None] * size)
    # Failures alone train nothing, and count all the same.
    inputs = [MeasureInput(TARGET, task.task, config) for config in tuner.next_batch(2)]
    tuner.update(inputs, [MeasureResult(("", "no code"), 2, 0.1, 0.0)] * 2)
    assert not fits_next(tuner, [None] * (size - 3))
    assert fits_next(tuner, [None] * (size - 2))
    use_cores(tuner, 3)
    assert (tuner.cost_model.num_threads, tuner.cost_model.xgb_params["nthread"]) == (3, 3)
    use_cores(listed, 3)
    end_workers(tuner)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_lost_devices_batch_moves_and_leaves_no_failure(
    recording_gate, grants_of, start_rpc_server, tmp_path
):
    log = tmp_path / "moved.log"
    with start_rpc_server("first") as first, start_rpc_server("second") as second:
        gate = recording_gate(grants=grants_of([first, second], losing=1))
        options = TuningOptions(tuner="grid", trials=4, timeout_s=5, **QUICK)
        outcome = AutoTvmBackend(gate=gate).tune(one_convolution(), {}, TARGET, log, options)
    assert outcome.trials == len(set(measured(log))) == len(measured(log)) == 4
    assert outcome.tasks[0].failed == 0
    assert gate.kinds == ["prepare", *BATCH, "profile", *BATCH]
    assert gate.events.count("lost") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_candidate_that_costs_two_devices_has_failed_and_the_rest_goes_on(
    recording_gate, grants_of, start_rpc_server, tmp_path
):
    log = tmp_path / "killer.log"
    with (
        start_rpc_server("a") as one,
        start_rpc_server("b") as two,
        start_rpc_server("c") as three,
    ):
        gate = recording_gate(grants=grants_of([one, two, three], losing=2))
        options = TuningOptions(tuner="grid", trials=2, timeout_s=5, **QUICK)
        AutoTvmBackend(gate=gate).tune(one_convolution(), {}, TARGET, log, options)
    errors = [result.error_no for _, result in autotvm.record.load_from_file(str(log))]
    assert [bool(error) for error in errors] == [True, False]
    assert gate.events.count("lost") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("second_try", "failed"), [(True, 0), (False, 1)])
def test_a_worker_that_dies_while_it_builds_gets_another_try_where_the_gate_says_so(
    second_try, failed, recording_gate, tmp_path
):
    gate = recording_gate(most_cores=3, second_try=second_try)
    killed = []

    def kill_a_builder():
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            for process in marked_processes(os.environ.get(MARK, "none")):
                with contextlib.suppress(OSError):
                    if b"popen_worker" in Path(f"/proc/{process}/cmdline").read_bytes():
                        os.kill(process, signal.SIGKILL)
                        killed.append(process)
                        return
            time.sleep(0.02)

    thread = threading.Thread(target=kill_a_builder)
    thread.start()
    options = TuningOptions(tuner="grid", trials=3, **QUICK)
    log = tmp_path / "died.log"
    outcome = AutoTvmBackend(gate=gate).tune(one_convolution(), {}, TARGET, log, options)
    thread.join()
    assert len(killed) == 1
    assert gate.kinds == ["prepare", *BATCH]  # a batch of three, on two cores at most
    assert (outcome.trials, outcome.tasks[0].failed) == (3, failed)


@pytest.mark.slow
@pytest.mark.usefixtures("planted_folder")
def test_no_process_of_a_run_imports_from_the_working_directory(tmp_path):
    options, before = TuningOptions(tuner="grid", trials=1, **QUICK), dict(os.environ)
    log = tmp_path / "safe.log"
    outcome = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options)
    assert (outcome.trials, outcome.notes) == (1, ())
    assert dict(os.environ) == before
