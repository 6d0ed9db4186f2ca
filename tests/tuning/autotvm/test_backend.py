"""AutoTVM through our back end: logs that stock TVM shares, resuming, kills, and errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
import tvm
from tvm import autotvm, relay

from tvm_ios.errors import OptionError, TuningError
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.autotvm.tasks import (
    Layout,
    blocks_of,
    config_blocks,
    default_candidate,
    extract_tasks,
)
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.guard import MARK, marked_processes
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.records.records import read_records

TARGET = tvm.target.Target("llvm -mcpu=core-avx2 -opt-level=0")
QUICK = {"number": 1, "repeat": 1, "min_repeat_ms": 0}


def one_convolution():
    data = relay.var("data", shape=(1, 16, 8, 8))
    weight = relay.var("weight", shape=(16, 16, 1, 1))
    body = relay.nn.conv2d(data, weight, channels=16, kernel_size=(1, 1))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data, weight], body)))


def two_convolutions():
    data = relay.var("data", shape=(1, 16, 8, 8))
    shapes = [(16, 16, 1, 1), (8, 16, 1, 1)]
    weights = [relay.var(f"weight{shape[0]}", shape=shape) for shape in shapes]
    body = relay.Tuple([relay.nn.conv2d(data, weight) for weight in weights])
    return relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([data, *weights], body))
    )


def measured(log):
    """The candidates of a log, in order."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(json.dumps(line["input"][1:3]), line["config"]["index"]) for line in lines]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, sharing):
    """One convolution, all its candidates, and what the tuner said."""
    log = tmp_path_factory.mktemp("tuned") / "autotvm.log"
    steps = []
    with sharing():
        outcome = AutoTvmBackend().tune(
            one_convolution(), {}, TARGET, log, TuningOptions(**QUICK), steps.append
        )
    return log, outcome, steps


@pytest.mark.slow
def test_every_candidate_is_measured_once(tuned):
    log, outcome, steps = tuned
    (row,) = outcome.tasks
    assert row.trials == len(measured(log)) == len(set(measured(log)))
    assert row.known == 0
    assert row.latency_ns is not None
    assert steps[-1].done == row.trials
    assert row.name in outcome.as_text()


@pytest.mark.slow
def test_stock_tvm_reads_the_log_and_uses_it(tuned):
    log, outcome, _ = tuned
    pairs = list(autotvm.record.load_from_file(str(log)))
    assert len(pairs) == outcome.trials
    (task,) = extract_tasks([one_convolution()], TARGET)
    with autotvm.apply_history_best(str(log)) as context, TARGET:
        config = context.query(TARGET, task.task.workload)
    best = min((result.costs[0], measured.config.index) for measured, result in pairs)
    assert config.index == best[1]


@pytest.mark.slow
def test_each_layout_is_a_way_to_apply_a_log_and_so_is_the_fastest_of_all(tuned):
    log, _, _ = tuned
    (task,) = extract_tasks([one_convolution()], TARGET)
    chosen = {}
    for name, application in AutoTvmBackend().variants([log], TARGET).items():
        with application() as context, TARGET:
            chosen[name] = config_blocks(context.query(TARGET, task.task.workload))
    for layout in Layout:
        wanted = blocks_of(task.task, layout)
        assert wanted in chosen.values()
        assert chosen.get(f"layout {layout.value}", wanted) == wanted


@pytest.mark.slow
def test_records_of_others_are_passed_over(tuned, tmp_path):
    """Of another tuner, and for a target that this TVM does not know."""
    log, outcome, _ = tuned
    mixed = tmp_path / "mixed.log"
    lines = log.read_text().splitlines()
    foreign = json.loads(lines[0])
    foreign["input"][0] = "llvm -link-params=0 -mcpu=core-avx2"
    ansor = (
        '{"i": [["[\\"1f3a\\", 1]", "llvm", [1, 64, 64, 0, 0, 0, 0, 0], "", 2, []], '
        '[[], []]], "r": [[0.001], 0, 1.0, 1], "v": "v0.6"}'
    )
    mixed.write_text("\n".join([json.dumps(foreign), ansor, *lines]) + "\n")
    again = AutoTvmBackend().tune(one_convolution(), {}, TARGET, mixed, TuningOptions(**QUICK))
    assert again.trials == 0
    assert again.tasks[0].known == outcome.trials
    assert (
        AutoTvmBackend().variants([mixed], TARGET).keys()
        == AutoTvmBackend().variants([log], TARGET).keys()
    )


def line_of(task, target, index, cost_s):
    config = task.task.config_space.get(index)
    measured = autotvm.MeasureInput(tvm.target.Target(target), task.task, config)
    return autotvm.record.encode(measured, autotvm.MeasureResult((cost_s,), 0, 0.1, 0.1)) + "\n"


def test_records_of_another_target_are_neither_known_nor_preferred(tmp_path):
    (task,) = extract_tasks([one_convolution()], TARGET)
    own, other = line_of(task, TARGET, 0, 1e-3), line_of(task, "llvm -mcpu=core2", 1, 1e-6)
    log = tmp_path / "both.log"
    log.write_text(own + line_of(task, "llvm -mcpu=core2", 0, 1e-6) + other)
    options = TuningOptions(tuner="grid", trials=1)
    (row,) = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options).tasks
    assert (row.known, row.trials, row.latency_ns) == (1, 0, 1_000_000)
    log.write_text(own + other)
    for target, index in ((TARGET, 0), (tvm.target.Target("llvm -mcpu=core-avx-i"), 1)):
        fastest = AutoTvmBackend().variants([log], target)["the fastest of each task"]
        for way in (fastest(), AutoTvmBackend().applied([log], target)):
            with way as context, target:
                assert context.query(target, task.task.workload).index == index


@pytest.mark.parametrize("turned", [False, True])
def test_a_candidate_that_failed_once_and_ran_once_has_run(turned, tmp_path):
    (task,) = extract_tasks([one_convolution()], TARGET)
    ran = line_of(task, TARGET, 0, 1e-3)
    failed = json.loads(ran)
    failed["result"][:2] = [[1e9], 4]
    lines = [ran, json.dumps(failed) + "\n"]
    log = tmp_path / "twice.log"
    log.write_text("".join(reversed(lines) if turned else lines))
    options = TuningOptions(tuner="grid", trials=1)
    (row,) = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options).tasks
    assert (row.known, row.failed, row.latency_ns) == (1, 0, 1_000_000)


@pytest.mark.parametrize("knobs", [None, [["tile_oc", "ot", 4]]])
def test_records_of_a_template_that_is_unknown_here_are_applied_as_they_are(knobs, tmp_path):
    (task,) = extract_tasks([one_convolution()], TARGET)
    known, foreign = line_of(task, TARGET, 0, 1e-3), json.loads(line_of(task, TARGET, 1, 1e-3))
    foreign["input"][1] = "somebody/template.x86"
    foreign["config"]["entity"] = knobs or foreign["config"]["entity"]
    log = tmp_path / "mixed.log"
    log.write_text(known + json.dumps(foreign) + "\n")
    fastest = AutoTvmBackend().variants([log], TARGET)["the fastest of each task"]
    workload = ("somebody/template.x86", *task.task.workload[1:])
    with fastest() as context, TARGET:
        assert context.query(TARGET, task.task.workload).index == 0
        assert context.query(TARGET, workload).index == 1


@pytest.mark.slow
def test_a_finished_log_means_no_tuning(tuned):
    log, first, _ = tuned
    before = log.read_bytes()
    again = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, TuningOptions(**QUICK))
    assert again.trials == 0
    assert again.tasks[0].known == first.trials
    assert again.tasks[0].latency_ns == first.tasks[0].latency_ns
    assert log.read_bytes() == before


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_log_of_stock_tvm_is_continued(tmp_path):
    log = tmp_path / "stock.log"
    (one,) = extract_tasks([one_convolution()], TARGET)
    stock = autotvm.tuner.GridSearchTuner(one.task)
    stock.tune(
        n_trial=2,
        measure_option=autotvm.measure_option(
            builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(**QUICK)
        ),
        callbacks=[autotvm.callback.log_to_file(str(log))],
    )
    known = measured(log)
    records = read_records(log)
    assert not records.rejected
    assert [(one.format, one.ok) for one in records.records] == [(RecordFormat.AUTOTVM, True)] * 2
    options = TuningOptions(tuner="grid", trials=3, **QUICK)
    outcome = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options)
    assert (outcome.tasks[0].known, outcome.trials) == (2, 1)
    assert measured(log)[:2] == known
    assert len(set(measured(log))) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
@pytest.mark.parametrize("tuner", ["random", "grid", pytest.param("xgb", marks=pytest.mark.full)])
def test_tuners_of_the_whole_space_repeat_nothing(tmp_path, tuner):
    log = tmp_path / "whole.log"
    for trials in (2, 4):
        options = TuningOptions(tuner=tuner, trials=trials, **QUICK)
        outcome = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options)
        assert outcome.trials == 2
    assert len(set(measured(log))) == 4
    (one,) = extract_tasks([one_convolution()], TARGET)
    assert measured(log)[0][1] == default_candidate(one.task)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_time_budget_ends_tuning_and_says_so(tmp_path):
    options = TuningOptions(time_budget_s=0.001, **QUICK)
    log = tmp_path / "short.log"
    outcome = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options)
    assert 0 < outcome.trials == len(measured(log))
    assert any("time budget" in note for note in outcome.notes)


@pytest.mark.slow
def test_candidates_that_cannot_run_cost_themselves_only(tmp_path):
    """A limit no kernel can meet: all fail, the log says so, and the outcome names the task."""
    options = TuningOptions(build_timeout_s=0.001, trials=2, **QUICK)
    log = tmp_path / "failed.log"
    outcome = AutoTvmBackend().tune(one_convolution(), {}, TARGET, log, options)
    (row,) = outcome.tasks
    assert (row.failed, row.latency_ns) == (2, None)
    assert any("default schedule" in note for note in outcome.notes)
    assert all(record.error for record in read_records(log).records)


def test_a_tracker_that_is_not_there_is_named(tmp_path):
    backend = AutoTvmBackend(device=DeviceOptions(rpc_tracker="127.0.0.1:9", rpc_key="none"))
    with pytest.raises(TuningError, match=r"127\.0\.0\.1.*9"):
        backend.tune(one_convolution(), {}, TARGET, tmp_path / "log", TuningOptions())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"tuner": "best"}, "tuner is 'best'; choose from layout, grid, random, xgb"),
        ({"time_budget_s": -1}, "time_budget_s is -1; give seconds above 0, up to inf"),
        ({"timeout_s": float("inf")}, r"timeout_s is inf; give seconds above 0, up to 1e\+09"),
        ({"build_timeout_s": float("nan")}, "build_timeout_s is nan"),
        ({"min_repeat_ms": -1}, "min_repeat_ms is -1"),
    ],
)
def test_options_nobody_can_honour_are_refused(option, message):
    with pytest.raises(OptionError, match=message):
        TuningOptions(**option)


def await_lines(log, count):
    deadline = time.monotonic() + 120
    while not log.exists() or log.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, "the tuner wrote nothing"
        time.sleep(0.05)


@pytest.mark.slow
def test_kill_9_loses_one_batch_at_most_and_leaves_no_worker(project_root, tmp_path, sharing):
    log = tmp_path / "killed.log"
    mark = tmp_path / "mark"
    script = (
        "import os\n"
        "from pathlib import Path\n"
        "from tests.tuning.autotvm import test_backend as t\n"
        f"def note(step): Path({str(mark)!r}).write_text(os.environ[{MARK!r}])\n"
        f"log, options = Path({str(log)!r}), t.TuningOptions(tuner='grid', trials=4, **t.QUICK)\n"
        "t.AutoTvmBackend().tune(t.two_convolutions(), {}, t.TARGET, log, options, note)\n"
    )
    tuner = subprocess.Popen([sys.executable, "-c", script], cwd=project_root)
    await_lines(log, 2)
    tuner.send_signal(signal.SIGKILL)
    tuner.wait()
    deadline = time.monotonic() + 20
    while marked_processes(mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not marked_processes(mark.read_text())
    before = measured(log)
    options = TuningOptions(tuner="grid", trials=4, **QUICK)
    with sharing():
        outcome = AutoTvmBackend().tune(two_convolutions(), {}, TARGET, log, options)
    after = measured(log)
    assert after[: len(before)] == before
    assert len(after) == len(set(after))
    assert len(outcome.tasks) == 2
    assert len(after) == sum(row.known + row.trials for row in outcome.tasks)
    assert all(row.known + row.trials == 4 for row in outcome.tasks)
