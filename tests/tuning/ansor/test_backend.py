"""auto_scheduler through our back end: tasks, logs that stock TVM shares, resuming, kills, RPC."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import tvm
from tvm import auto_scheduler, autotvm, relay
from tvm.ir.transform import PassContext

from tests.stock import stock_outputs
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import RecordError, TuningError
from tvm_ios.host import host_target
from tvm_ios.models import nasnet_small, randwire_small, squeezenet
from tvm_ios.relay.context import ANSOR_SWITCH
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.search.baselines import greedy_schedule, make_schedule
from tvm_ios.tuning.ansor import backend as ansor_backend
from tvm_ios.tuning.ansor import run as ansor_run
from tvm_ios.tuning.ansor.backend import AnsorBackend
from tvm_ios.tuning.ansor.tasks import ansor_context, extract_tasks, hardware_params
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.guard import MARK, marked_processes
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.records.records import read_records
from tvm_ios.tuning.tuned_kernels import merged_modules

TARGET = resolve_target(f"{host_target()} -opt-level=0")
QUICK = {"number": 1, "repeat": 1, "min_repeat_ms": 0}
BATCH = 4
"""Candidates that TVM measures at a time on two cores."""


def one_convolution():
    data = relay.var("data", shape=(1, 16, 8, 8))
    weight = relay.var("weight", shape=(16, 16, 3, 3))
    body = relay.nn.conv2d(data, weight, padding=(1, 1), channels=16, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.relu(body)))
    values = np.random.default_rng(0).uniform(-1, 1, (16, 16, 3, 3)).astype("float32")
    return relay.transform.InferType()(mod), {"weight": tvm.nd.array(values)}


def write_candidates(log, tasks, *, count=1):
    """A log with candidates of the search spaces that nobody measured, each slower than before."""
    for one in tasks:
        small = {"sample_init_min_population": 16, "evolutionary_search_population": 16}
        policy = auto_scheduler.SketchPolicy(one.task, params=small, verbose=0)
        states = list(policy.sample_initial_population())[:count]
        auto_scheduler.save_records(
            str(log),
            [auto_scheduler.MeasureInput(one.task, state) for state in states],
            [
                auto_scheduler.MeasureResult([1e-3 * (place + 1)], 0, "", 0.1, time.time())
                for place in range(len(states))
            ],
        )


def candidates(log):
    """Workload and schedule of each line."""
    records = read_records(log)
    assert not records.rejected
    return [(record.workload, record.candidate()) for record in records.records]


@pytest.fixture(scope="module")
def stock_output(reference_build):
    """What TVM gives without records."""
    built = {}

    def output(mod, params, value):
        if mod not in built:
            built[mod] = reference_build(mod, params, TARGET)
        return run_stock(built[mod], mod, value)

    return output


def run_stock(library, mod, value):
    return stock_outputs(library, **{mod["main"].params[0].name_hint: value})[0]


def random_input(mod):
    shape = [int(extent) for extent in mod["main"].params[0].type_annotation.shape]
    return np.random.default_rng(1).uniform(-1, 1, shape).astype("float32")


def output_of(built, schedule, value):
    executor = lower_schedule(built, schedule, lanes=1).executor()
    executor.set_input(0, value)
    executor.run()
    return executor.get_output(0).numpy()


def merging_first_level(graph):
    """The first convolutions that read one tensor as one, all else in order."""
    operands = [one.convolution.operand if one.convolution else None for one in graph.operators]
    first = next(operand for operand in operands if operand and operands.count(operand) > 1)
    members = [index for index, operand in enumerate(operands) if operand == first]
    rest = [index for index in range(len(graph.operators)) if index not in members]
    merged = Stage(tuple((index,) for index in members), Strategy.MERGE)
    single = [Stage(((index,),), Strategy.CONCURRENT) for index in rest]
    before = min(members)
    return make_schedule(graph, (*single[:before], merged, *single[before:]), "test")


class Spy(auto_scheduler.ApplyHistoryBest):
    """Stock TVM's context, and what became of each question with a reduction in it."""

    def __init__(self, logs):
        super().__init__([str(log) for log in logs])
        self.hits, self.misses = set(), set()

    def query(self, target, workload_key, has_complex_op, dag, func_name):
        state = self._query_inside(target, workload_key, func_name)
        if has_complex_op:
            (self.misses if state is None else self.hits).add(str(workload_key))
        return state


@pytest.fixture(scope="module")
def branching_tasks(branching):
    return extract_tasks(*branching, TARGET, cores=2)


@pytest.fixture(scope="module")
def fork_built(fork):
    return build_model(*fork, TARGET)


@pytest.fixture(scope="module")
def fork_tasks(fork):
    return extract_tasks(*fork, TARGET, cores=2)


@pytest.fixture(scope="module")
def tasks_with_merges(fork, fork_built):
    extra = merged_modules(fork_built.extraction)
    return extract_tasks(*fork, TARGET, extra_modules=extra, cores=2)


# Tasks


@pytest.mark.slow
def test_tasks_are_what_the_scheduled_build_asks_for(branching, branching_tasks):
    with Spy([]) as spy, ansor_context():
        built = build_model(*branching, TARGET)
    assert {one.workload for one in branching_tasks} == spy.misses
    heavy = [operator for operator in built.graph.operators if operator.convolution]
    named = [one for one in branching_tasks if "conv2d" in one.name]
    assert sum(one.weight for one in named) == len(heavy)


@pytest.mark.slow(1)
def test_tasks_come_once_each_the_most_work_first(branching_tasks):
    work = [one.weight * one.flop for one in branching_tasks]
    assert work == sorted(work, reverse=True)
    assert len({one.workload for one in branching_tasks}) == len(branching_tasks)


@pytest.mark.slow
def test_kernels_of_merges_are_tasks_too(fork_tasks, tasks_with_merges):
    known = {one.workload for one in fork_tasks}
    weights = {one.workload: one.weight for one in tasks_with_merges}
    assert weights.keys() > known
    assert all(weights[one.workload] == one.weight for one in fork_tasks)


@pytest.mark.slow
def test_a_merged_stage_is_compiled_with_the_record_of_its_task(
    fork, tasks_with_merges, tmp_path, stock_output
):
    log = tmp_path / "merged.json"
    write_candidates(log, tasks_with_merges)
    value = random_input(fork[0])
    with Spy([log]) as spy, ansor_context():
        tuned = build_model(*fork, TARGET)
        got = output_of(tuned, merging_first_level(tuned.graph), value)
    assert not spy.misses
    assert np.allclose(got, stock_output(*fork, value), rtol=1e-4, atol=1e-4)


def test_a_gpu_need_not_be_there():
    found = hardware_params(tvm.target.Target("cuda -arch=sm_90"), cores=2)
    if tvm.cuda().exist:
        assert found.warp_size == 32
        return
    assert (found.warp_size, found.max_threads_per_block) == (32, 1024)
    assert found.max_shared_memory_per_block == 48 << 10


def test_a_cpu_task_is_for_the_threads_asked_for():
    assert hardware_params(TARGET, cores=3).num_cores == 3


# Applying records


@pytest.mark.slow
def test_records_change_kernels_and_nothing_else(
    fork, fork_built, fork_tasks, tmp_path, stock_output
):
    log = tmp_path / "fork.json"
    write_candidates(log, fork_tasks)
    value = random_input(fork[0])
    with AnsorBackend().applied([log]):
        tuned = build_model(*fork, TARGET)
    heavy = ("conv2d", "pool", "concatenate", "relu")
    assert [o.workload for o in fork_built.graph.operators if o.kind in heavy] == [
        o.workload for o in tuned.graph.operators if o.kind in heavy
    ]
    assert fork_built.extraction.views == tuned.extraction.views
    got = output_of(tuned, greedy_schedule(tuned.graph), value)
    assert np.allclose(got, stock_output(*fork, value), rtol=1e-4, atol=1e-4)


@pytest.mark.slow(1)
def test_logs_are_applied_together_whatever_else_is_in_them(fork_tasks, tmp_path):
    logs = [tmp_path / "a.json", tmp_path / "b.json"]
    write_candidates(logs[0], fork_tasks[::2])
    write_candidates(logs[1], fork_tasks[1::2])
    autotvm_line = (
        '{"input": ["llvm", "conv2d_NCHWc.x86", [], {}], "config": {"index": 0, '
        '"code_hash": null, "entity": []}, "result": [[1.0], 0, 1.0, 1.0], "version": 0.2}'
    )
    unknown_step = json.loads(logs[0].read_text().splitlines()[0])
    unknown_step["i"][1][1].insert(0, ["NO", 1])
    with logs[0].open("a") as file:
        file.write(f"{autotvm_line}\n{json.dumps(unknown_step)}\n")
    with AnsorBackend().applied(logs):
        context = auto_scheduler.DispatchContext.current
        found = [context._query_inside(TARGET, one.workload, "") for one in fork_tasks]
    assert all(state is not None for state in found)


def test_faster_records_of_another_target_do_not_count_where_there_are_own(tmp_path):
    (task,) = extract_tasks(*one_convolution(), TARGET, cores=2)
    log = tmp_path / "both.json"
    write_candidates(log, [task], count=2)
    other, own = map(json.loads, log.read_text().splitlines())
    other["i"][0][1] = "llvm -keys=cpu -mcpu=core2"
    log.write_text(f"{json.dumps(other)}\n{json.dumps(own)}\n")
    times_ms = []
    for target in (TARGET, tvm.target.Target("llvm -mcpu=core-avx-i")):
        with AnsorBackend().applied([log], target):
            best = auto_scheduler.DispatchContext.current.best_by_targetkey["cpu"]
        times_ms += [cost_s * 1e3 for entry in best.values() for _, cost_s in entry.values()]
    assert times_ms == [2, 1]


def test_a_context_of_the_caller_goes_on_inside(tmp_path):
    log = tmp_path / "empty.json"
    log.touch()
    with (
        PassContext(opt_level=2, disabled_pass=["FoldScaleAxis"]),
        AnsorBackend().applied([log]),
    ):
        current = PassContext.current()
        assert current.opt_level == 2
        assert current.config[ANSOR_SWITCH]
        assert "FoldScaleAxis" in [str(name) for name in current.disabled_pass]
    assert ANSOR_SWITCH not in PassContext.current().config


def test_nothing_is_left_of_a_context(tmp_path):
    before = (auto_scheduler.DispatchContext.current, autotvm.GLOBAL_SCOPE.silent)
    with (
        pytest.raises(RecordError, match="none.json"),
        AnsorBackend().applied([tmp_path / "none.json"]),
    ):
        pytest.fail("there is no such log")
    with pytest.raises(KeyError), AnsorBackend().applied([]):
        raise KeyError
    assert (auto_scheduler.DispatchContext.current, autotvm.GLOBAL_SCOPE.silent) == before


# Budgets, without measuring


@pytest.mark.slow(1)
def test_a_log_that_holds_the_budget_means_no_tuning(tmp_path):
    mod, params = one_convolution()
    (task,) = extract_tasks(mod, params, TARGET, cores=2)
    log = tmp_path / "whole.json"
    write_candidates(log, [task], count=3)
    before = log.read_bytes()
    outcome = AnsorBackend().tune(mod, params, TARGET, log, TuningOptions(trials=3))
    (row,) = outcome.tasks
    assert (outcome.trials, row.known, row.failed, row.latency_ns) == (0, 3, 0, 1_000_000)
    assert row.gflops == pytest.approx(task.flop / 1e6)
    assert not outcome.notes
    assert log.read_bytes() == before


@pytest.mark.slow(1)
def test_records_of_other_targets_and_workloads_and_copies_do_not_count(tmp_path):
    mod, params = one_convolution()
    (task,) = extract_tasks(mod, params, TARGET, cores=2)
    log = tmp_path / "foreign.json"
    write_candidates(log, [task])
    (line,) = log.read_text().splitlines()
    record = json.loads(line)
    foreign = []
    for place, value in [(0, '["somebody else"]'), (1, "llvm -keys=cpu -mcpu=core2")]:
        other = json.loads(line)
        other["i"][0][place] = value
        foreign.append(json.dumps(other))
    record["r"][3] += 1
    with log.open("a") as file:
        file.write("\n".join([*foreign, json.dumps(record)]) + "\n")
    outcome = AnsorBackend().tune(mod, params, TARGET, log, TuningOptions(trials=1))
    assert (outcome.trials, outcome.tasks[0].known) == (0, 1)


@pytest.mark.slow(1)
@pytest.mark.parametrize("turned", [False, True])
def test_a_candidate_that_failed_once_and_ran_once_has_run(turned, tmp_path):
    mod, params = one_convolution()
    tasks = extract_tasks(mod, params, TARGET, cores=2)
    log = tmp_path / "twice.json"
    write_candidates(log, tasks)
    failed = json.loads(log.read_text())
    failed["r"][:2] = [[1e10], 4]
    lines = [log.read_text(), json.dumps(failed) + "\n"]
    log.write_text("".join(reversed(lines) if turned else lines))
    (row,) = AnsorBackend().tune_tasks(tasks, log, TuningOptions(trials=1)).tasks
    assert (row.known, row.failed, row.latency_ns) == (1, 0, 1_000_000)


def test_what_is_known_of_one_task_takes_no_candidates_from_others(tmp_path, monkeypatch):
    mod, params = one_convolution()
    data, weight = (relay.var(name, shape=(24, 24)) for name in ("data", "weight"))
    product = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.dense(data, weight)))
    known = extract_tasks(mod, params, TARGET, cores=2)
    new = extract_tasks(product, {}, TARGET, cores=2)
    log = tmp_path / "one.json"
    write_candidates(log, known, count=5)
    given = []
    monkeypatch.setattr(ansor_backend, "TRIALS_A_TASK", 2)
    monkeypatch.setattr(ansor_backend.TuningRun, "tune", lambda run, *_: given.append(run.total))
    AnsorBackend().tune_tasks([*known, *new], log, TuningOptions())
    assert given == [2]
    # A network that has its candidates is finished, however the tuner spread them.
    write_candidates(log, new)  # after the others
    AnsorBackend().tune_tasks([*known, *new], log, TuningOptions())
    assert given == [2]


@pytest.mark.slow
def test_a_task_that_never_ran_is_noted(tmp_path, stock_output):
    mod, params = one_convolution()
    (task,) = extract_tasks(mod, params, TARGET, cores=2)
    log = tmp_path / "failed.json"
    write_candidates(log, [task])
    record = json.loads(log.read_text())
    record["r"][:2] = [[1e10], 4]
    log.write_text(json.dumps(record) + "\n")
    outcome = AnsorBackend().tune(mod, params, TARGET, log, TuningOptions(trials=1))
    (row,) = outcome.tasks
    assert (row.known, row.failed, row.latency_ns) == (1, 1, None)
    assert any("1 of 1 tasks have no valid record" in note for note in outcome.notes)
    value = random_input(mod)
    with AnsorBackend().applied([log]):
        built = build_model(mod, params, TARGET)
    got = output_of(built, greedy_schedule(built.graph), value)
    assert np.allclose(got, stock_output(mod, params, value), rtol=1e-4, atol=1e-4)


def test_without_a_kernel_to_tune_nothing_happens(tmp_path):
    data = relay.var("data", shape=(1, 16))
    mod = tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(data)))
    outcome = AnsorBackend().tune(mod, {}, TARGET, tmp_path / "none.json", TuningOptions(trials=4))
    assert not outcome.tasks
    assert "no operator that auto_scheduler tunes" in outcome.as_text()


def test_a_missing_cost_model_names_itself(tmp_path, monkeypatch):
    mod, params = one_convolution()
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert importlib.import_module("tvm.auto_scheduler")
    with pytest.raises(TuningError, match="needs the package xgboost.*python -m pip install"):
        AnsorBackend().tune(mod, params, TARGET, tmp_path / "a.json", TuningOptions())


@pytest.mark.slow
def test_a_tracker_is_asked_before_anything_else(tmp_path, bare_tracker):
    mod, params = one_convolution()
    backend = AnsorBackend(device=DeviceOptions(rpc_tracker=bare_tracker.address, rpc_key="xavier"))
    with pytest.raises(TuningError, match="no device with key 'xavier'"):
        backend.tune(mod, params, TARGET, tmp_path / "a.json", TuningOptions())


@pytest.mark.parametrize(
    ("total", "tasks", "width"), [(4, 1, 4), (16, 1, 8), (64, 1, 16), (6400, 10, 64), (30, 20, 1)]
)
def test_a_round_is_a_part_of_what_a_task_may_spend(total, tasks, width):
    assert ansor_run.round_size(total, tasks) == width


# Real searches


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, sharing):
    """One convolution and four of its candidates, measured, and what was said meanwhile."""
    log = tmp_path_factory.mktemp("tuned") / "deep" / "ansor.json"
    steps = []
    options = TuningOptions(trials=BATCH, **QUICK)
    with sharing():
        outcome = AnsorBackend().tune(*one_convolution(), TARGET, log, options, steps.append)
    return log, outcome, steps


@pytest.mark.slow
def test_the_budget_is_spent_and_told(tuned):
    log, outcome, steps = tuned
    (row,) = outcome.tasks
    assert outcome.backend == "auto_scheduler"
    assert row.trials == len(candidates(log)) == len(set(candidates(log))) == BATCH
    assert row.known == row.failed == 0
    best_s = min(record.mean_s for record in read_records(log).records)
    assert row.latency_ns == round(best_s * 1e9)
    assert row.name in outcome.as_text()
    assert {step.phase for step in steps} == {"tune"}
    assert steps[-1].done == BATCH
    assert steps[-1].unit == f"of {BATCH} candidates"
    assert steps[-1].detail.endswith("; 1 of 1 tasks")


@pytest.mark.slow
def test_stock_tvm_builds_with_our_log(tuned, stock_output):
    log, _, _ = tuned
    mod, params = one_convolution()
    value = random_input(mod)
    inputs, results = auto_scheduler.RecordReader(str(log)).read_lines()
    assert len(inputs) == len(results) == BATCH
    with Spy([log]) as spy, PassContext(opt_level=3, config={ANSOR_SWITCH: True}):
        library = relay.build(mod, TARGET, params=params)
    assert len(spy.hits) == 1
    assert not spy.misses
    expected = stock_output(mod, params, value)
    assert np.allclose(run_stock(library, mod, value), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_what_stock_tvm_measured_is_continued_and_not_repeated(tmp_path, capfd):
    mod, params = one_convolution()
    log = tmp_path / "stock.json"
    tasks, _ = auto_scheduler.extract_tasks(mod["main"], params, TARGET)
    (task,) = tasks
    policy = auto_scheduler.SketchPolicy(
        task, params={"evolutionary_search_population": 16}, verbose=0
    )
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=2,
            runner=auto_scheduler.LocalRunner(**QUICK),
            measure_callbacks=[auto_scheduler.RecordToFile(str(log))],
            verbose=0,
        ),
        policy,
    )
    theirs = candidates(log)
    capfd.readouterr()
    outcome = AnsorBackend().tune(mod, params, TARGET, log, TuningOptions(trials=4, **QUICK))
    assert (outcome.tasks[0].known, outcome.trials) == (2, 2)
    assert candidates(log)[:2] == theirs
    assert len(set(candidates(log))) == 4
    assert {record.format for record in read_records(log).records} == {RecordFormat.AUTO_SCHEDULER}
    assert not capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_candidates_that_hang_cost_themselves_only(tmp_path):
    log = tmp_path / "hang.json"
    options = TuningOptions(trials=2, number=10**9, repeat=1, min_repeat_ms=0, timeout_s=1)
    outcome = AnsorBackend().tune(*one_convolution(), TARGET, log, options)
    (row,) = outcome.tasks
    assert (row.trials, row.failed, row.latency_ns) == (2, 2, None)
    # On a loaded machine the device is not even reached within the time.
    errors = auto_scheduler.measure.MeasureErrorNo
    assert {record.error for record in read_records(log).records} <= {
        errors.RUN_TIMEOUT,
        errors.RUNTIME_DEVICE,
    }


@pytest.mark.slow
def test_a_worker_that_crashes_costs_its_candidate_only(tmp_path):
    log = tmp_path / "crash.json"
    killed = []

    def crash():
        """Kill the first worker that has begun to work."""
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            for process in marked_processes(os.environ.get(MARK, "none")):
                command = _command_line(process)
                if "popen_worker" in command:
                    os.kill(process, signal.SIGSEGV)
                    killed.append(process)
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=crash)
    thread.start()
    options = TuningOptions(trials=BATCH, **QUICK)
    outcome = AnsorBackend().tune(*one_convolution(), TARGET, log, options)
    thread.join()
    (row,) = outcome.tasks
    assert len(killed) == 1
    assert row.trials == len(candidates(log)) == BATCH
    assert row.failed == 1
    assert row.latency_ns is not None


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_time_budget_ends_tuning_and_says_so(tmp_path):
    log = tmp_path / "short.json"
    options = TuningOptions(trials=100, time_budget_s=1, **QUICK)
    outcome = AnsorBackend().tune(*one_convolution(), TARGET, log, options)
    assert outcome.trials == len(candidates(log)) < 100
    assert any("time budget of 1 s" in note for note in outcome.notes)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_measuring_through_a_tracker(tmp_path, loopback_tracker, capfd):
    log = tmp_path / "rpc.json"
    device = DeviceOptions(rpc_tracker=loopback_tracker.address, rpc_key=loopback_tracker.key)
    options = TuningOptions(trials=2, **QUICK)
    outcome = AnsorBackend(device=device).tune(*one_convolution(), TARGET, log, options)
    (row,) = outcome.tasks
    assert (row.trials, row.failed) == (2, 0)
    assert row.latency_ns is not None
    assert len(candidates(log)) == 2
    assert not capfd.readouterr().out


TUNER = """
    from pathlib import Path
    from tests.tuning.ansor import conftest, test_backend as t
    conftest.search_little()
    try:
        t.AnsorBackend().tune(
            *t.one_convolution(), t.TARGET, Path({log!r}),
            t.TuningOptions(trials={trials}, **t.QUICK),
            lambda step: print("done", step.done, t.os.environ[t.MARK], flush=True),
        )
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def start_tuner(project_root, log, trials):
    """A process of its own that tunes, and tells of every step on its standard output."""
    code = textwrap.dedent(TUNER).format(log=str(log), trials=trials)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=project_root,
    )


def read_until(process, done):
    """The mark of a run, once it has told of so many candidates."""
    for line in process.stdout:
        words = line.split()
        if words[0] == "done" and int(words[1]) >= done:
            return words[2]
    return pytest.fail("the tuner ended early")


def await_none(mark):
    deadline = time.monotonic() + 30
    while marked_processes(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not marked_processes(mark)


@pytest.mark.slow
def test_after_kill_9_at_most_a_batch_is_lost_and_nothing_is_repeated(
    project_root, tmp_path, sharing
):
    log = tmp_path / "killed.json"
    tuner = start_tuner(project_root, log, 8)
    try:
        mark = read_until(tuner, BATCH)
    finally:
        os.kill(tuner.pid, signal.SIGKILL)
    told = [int(line.split()[1]) for line in tuner.stdout]
    tuner.wait()
    tuner.stdout.close()
    await_none(mark)
    kept = candidates(log)
    assert len(kept) >= max([BATCH, *told])
    options = TuningOptions(trials=8, **QUICK)
    with sharing():
        outcome = AnsorBackend().tune(*one_convolution(), TARGET, log, options)
    assert outcome.tasks[0].known == len(kept)
    assert candidates(log)[: len(kept)] == kept
    assert len(set(candidates(log))) == len(candidates(log)) == 8


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_ends_it_and_no_worker_is_left(project_root, tmp_path):
    log = tmp_path / "interrupted.json"
    tuner = start_tuner(project_root, log, 16)
    mark = read_until(tuner, BATCH)
    os.killpg(tuner.pid, signal.SIGINT)  # as a terminal does
    said, _ = tuner.communicate(timeout=120)
    assert tuner.returncode == 0
    assert said.splitlines()[-1] == "interrupted"
    assert not marked_processes(mark)
    assert all(record.ok for record in read_records(log).records)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(lambda: squeezenet(image_size=64), id="squeezenet"),
        pytest.param(lambda: nasnet_small(size=8, num_cells=1), id="nasnet_small"),
        pytest.param(randwire_small, id="randwire_small"),
    ],
)
def test_networks_give_what_stock_tvm_gives(network, tmp_path, stock_output):
    mod, params = network()
    log = tmp_path / "network.json"
    write_candidates(log, extract_tasks(mod, params, TARGET, cores=2)[:2])
    value = random_input(mod)
    with AnsorBackend().applied([log]):
        built = build_model(mod, params, TARGET)
        got = output_of(built, greedy_schedule(built.graph), value)
    assert np.allclose(got, stock_output(mod, params, value), rtol=1e-4, atol=1e-4)


def _command_line(process):
    try:
        with open(f"/proc/{process}/cmdline", encoding="utf-8") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""
