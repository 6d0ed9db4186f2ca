"""Tuning under the front door: the network that comes out is right, and says what was done."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import auto_scheduler, autotvm

import tvm_ios
from tests.bfloat16 import needs_bfloat16
from tests.driver.test_tune import COMPARE, MEASURE
from tests.stock import stock_executor
from tvm_ios import BuildOptions, Conversion, DeviceOptions, TuneOptions, TuningOptions
from tvm_ios.compile.built_model import build_model, build_prepared
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.errors import OptionError, RecordError
from tvm_ios.measure.comparison import CompareRound, Comparison, Outcome
from tvm_ios.profile import build_choice
from tvm_ios.profile.race import Choice
from tvm_ios.relay.context import applied_records_digest
from tvm_ios.relay.prepare import converted_model, prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.report.records_in_force import MissingReason, RecordFormat
from tvm_ios.report.tune_report import Contestant
from tvm_ios.search.options import SearchOptions
from tvm_ios.tuning import tuned_kernels
from tvm_ios.tuning.ansor.tasks import extract_tasks
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.tuned_kernels import TuningRequest

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
QUICK = TuningOptions(trials=2, number=1, repeat=1, min_repeat_ms=0)
UNTUNED = (
    Contestant.UNTUNED_GREEDY,
    Contestant.UNTUNED_IOS,
    Contestant.UNTUNED_IOS_LIST,
)


@pytest.fixture(scope="module")
def log(fork, tmp_path_factory, sharing):
    """Two candidates of every kernel, and a torn line."""
    path = tmp_path_factory.mktemp("session") / "autotvm.log"
    mod, params = fork
    with sharing():
        AutoTvmBackend().tune(mod, params, tvm.target.Target(TARGET), path, QUICK)
    return path


def tune(network, tmp_path, kernels=None, **arguments):
    mod, params = network
    return tvm_ios.tune(
        mod,
        params,
        TARGET,
        lanes=1,
        database=tmp_path / "prices.sqlite",
        options=TuneOptions(
            search=SearchOptions(least_gain_percent=0.0),  # one lane has nothing to gain
            build=BuildOptions(libraries=()),
            measure=MEASURE,
            compare=COMPARE,
            kernels=kernels or TuningOptions(),
        ),
        **arguments,
    )


def outputs(model, network, build):
    mod, params = network
    data = np.random.default_rng(0).uniform(-1, 1, (1, 16, 8, 8)).astype("float32")
    with model.executor() as executor:
        executor.run(data=data)
        actual = executor.get_output(0).numpy()
    stock_library = build(mod, params, TARGET)
    stock = stock_executor(stock_library)
    stock.run(data=data)
    return actual, stock.get_output(0).numpy()


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_tuned_networks_compute_the_same_and_report_their_tasks(
    fork, log, tmp_path, reference_build
):
    """The log is one that somebody with another target writes into, too."""
    steps = []
    kernels = replace(QUICK, trials=3)
    shared = tmp_path / "shared.log"
    shared.write_text(log.read_text().replace("core-avx2", "core2") + log.read_text())
    model = tune(
        fork, tmp_path, kernels, tuning="autotvm", tuning_records=shared, progress=steps.append
    )
    counted = [step for step in steps if step.phase == "tune" and step.done is not None]
    assert counted
    assert all(step.unit == f"of {counted[-1].done} candidates" for step in counted)
    assert counted[-1].share == 1.0
    np.testing.assert_allclose(*outputs(model, fork, reference_build), rtol=1e-4, atol=1e-5)
    report = model.report()
    assert "conv2d_NCHWc" in report.tuning
    assert report.tuning in report.as_text()
    assert any(note.startswith("tuned kernels, ") for note in report.notes)
    assert {"tune", "build tuned", "check tuned"} <= report.phase_s.keys()
    measured = shared.read_text().count("core-avx2")
    assert report.evidence.curve[-1].candidates == measured


@pytest.mark.slow
@pytest.mark.parametrize("kept", [pytest.param(0, marks=pytest.mark.full), -1])
def test_what_won_once_is_not_raced_again(fork, log, tmp_path, monkeypatch, kept):
    def choose(builds, _call):
        return BuildChoice(kept=list(builds)[kept], notes=("a: 1.0",), certain=True)

    monkeypatch.setattr("tvm_ios.tuning.tuned_kernels.choose_build", choose)
    first = tune(fork, tmp_path, tuning_records=[log]).report()
    again = tune(fork, tmp_path, tuning_records=[log]).report()
    assert "check tuned" not in again.phase_s
    assert any(note.startswith("tuned kernels, a: 1.0 (raced on 2") for note in again.notes)
    assert len(again.records.kernels) == len(first.records.kernels) == 2
    used = [kernel.applied for kernel in again.records.kernels]
    assert any(used) == (kept == -1 and again.kept not in UNTUNED)
    log_again = tmp_path / "longer.log"
    log_again.write_text(log.read_text() + log.read_text().splitlines()[0] + "\n")
    assert "check tuned" in tune(fork, tmp_path, tuning_records=[log_again]).report().phase_s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (Contestant.GREEDY, RecordFormat.AUTOTVM),
        (Contestant.UNTUNED_GREEDY, MissingReason.NOT_FASTER),
    ],
)
def test_records_are_in_force_where_the_kernels_that_have_them_are_kept(
    fork, log, tmp_path, monkeypatch, reference_build, kept, found
):
    """Tuned kernels race against the best schedules of untuned ones."""
    monkeypatch.setattr(
        "tvm_ios.tuning.tuned_kernels.choose_build",
        lambda builds, _call: BuildChoice(kept=list(builds)[-1], notes=(), certain=True),
    )
    choice = Choice(kept=kept, outcome=Outcome.FASTER, reason="asked for")
    monkeypatch.setattr("tvm_ios.profile.last_race.choose", lambda *_: choice)
    model = tune(fork, tmp_path, tuning_records=[log])
    report = model.report()
    assert report.kept is kept
    # With one lane a concurrent schedule is sequential order in another guise, and races too.
    assert "greedy, untuned kernels" in report.comparison.names
    assert [kernel.found for kernel in report.records.kernels] == [found, found]
    np.testing.assert_allclose(*outputs(model, fork, reference_build), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_records_alone_are_used_without_tuning_and_the_report_tells_which_are_in_force(
    fork, log, tmp_path, reference_build
):
    torn = tmp_path / "torn.log"
    torn.write_bytes(b'{"input": ["llvm"\n' + log.read_bytes())
    model = tune(fork, tmp_path, tuning_records=torn)
    np.testing.assert_allclose(*outputs(model, fork, reference_build), rtol=1e-4, atol=1e-5)
    report = model.report()
    assert report.tuning == ""
    # A race decides whether the records are used at all.
    lost = any("so none are used" in note for note in report.notes)
    found = MissingReason.NOT_FASTER if lost else RecordFormat.AUTOTVM
    assert (report.records.contexts, report.records.logs) == ((), (torn,))
    assert [kernel.found for kernel in report.records.kernels] == [found, found]
    assert f"{0 if lost else 2} of 2 kernels (log torn.log)" in report.as_text()
    # Lines that cannot be read are kept aside.
    assert any("1 unreadable line" in note for note in report.notes)
    assert (tmp_path / "torn.log.rejected").read_text().startswith('{"input"')
    assert torn.read_bytes() == log.read_bytes()


@pytest.mark.slow
def test_the_report_tells_of_a_context_around_the_call(fork, log, tmp_path):
    with autotvm.apply_history_best(str(log)):
        model = tune(fork, tmp_path)
    assert model.records == model.report().records
    assert "records in force: 2 of 2 kernels (context AutoTVM)\n" in model.report().as_text()


@pytest.mark.slow
def test_an_empty_log_is_told_of(fork, tmp_path):
    empty = tmp_path / "empty.log"
    empty.touch()
    records = tune(fork, tmp_path, tuning_records=empty).report().records
    assert [kernel.found for kernel in records.missing] == [MissingReason.NO_RECORD] * 2


@pytest.mark.slow
def test_a_context_goes_on_where_a_log_has_nothing(fork, log, tmp_path):
    empty = tmp_path / "empty.log"
    empty.touch()
    with autotvm.apply_history_best(str(log)):
        report = tune(fork, tmp_path, tuning_records=empty).report()
    assert "2 of 2 kernels (context AutoTVM, log empty.log)" in report.as_text()


@pytest.mark.slow
def test_the_records_in_force_are_part_of_a_price(fork, log):
    mod, params = fork
    assert applied_records_digest() == ""
    with AutoTvmBackend().applied([log]):
        digest = applied_records_digest()
        built = build_model(mod, params, TARGET)
        assert applied_records_digest() == digest
    assert digest
    plain = build_model(mod, params, TARGET)
    # Records choose layouts, and so what lies between them; what computes stays.
    kinds = [[o.kind for o in one.graph.operators] for one in (built, plain)]
    tuned, untuned = ([k for k in each if k != "layout_transform"] for each in kinds)
    assert tuned == untuned


def test_missing_records_are_named(fork, tmp_path):
    with pytest.raises(RecordError, match=r"absent\.log"):
        tune(fork, tmp_path, tuning_records=tmp_path / "absent.log")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tuning": "ansor"}, "tuning is 'ansor'; choose from 'autotvm', 'auto_scheduler'"),
        (
            {"kernels": TuningOptions(trials=3, tuner="grid")},
            "trials, tuner given without tuning, where nothing reads that; leave it out, or give "
            "tuning='autotvm' or 'auto_scheduler'",
        ),
        (
            {"kernels": TuningOptions(tuner="grid"), "tuning": "auto_scheduler"},
            "tuner given with tuning='auto_scheduler', where .* give tuning='autotvm'",
        ),
        (
            {"kernels": TuningOptions(task_early_stopping=3), "tuning": "autotvm"},
            "task_early_stopping given with tuning='autotvm', where .* tuning='auto_scheduler'",
        ),
        ({"kernels": TuningOptions(trials=3), "tuning_records": ()}, "trials given without tuning"),
    ],
)
def test_requests_nobody_can_honour_are_refused(fork, tmp_path, arguments, message):
    with pytest.raises(OptionError, match=message):
        tune(fork, tmp_path, **arguments)


def test_no_tuning_is_no_request():
    nothing = {"options": TuningOptions(), "pad_merged_kernels": True}
    for device in (DeviceOptions(), DeviceOptions(rpc_tracker="h:1", rpc_key="k")):
        assert TuningRequest.of(None, None, device=device, **nothing) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept", [pytest.param("layouts as they are", marks=pytest.mark.full), "NCHW"]
)
def test_layouts_are_raced_under_the_records_of_a_log(fork, tmp_path, monkeypatch, kept):
    mod, _ = converted_model(*fork, TARGET, Conversion(desired_layout="NHWC"))
    tasks = [one.task for one in extract_tasks(mod, {}, tvm.target.Target(TARGET), cores=1)]
    log = tmp_path / "ansor.json"
    auto_scheduler.save_records(
        str(log),
        [auto_scheduler.MeasureInput(task, task.compute_dag.get_init_state()) for task in tasks],
        [auto_scheduler.MeasureResult([1e-3], 0, "", 0.1, 1.0) for _ in tasks],
    )
    raced = []

    def choose_layout(builds, _call, *, prices_count, **_options):
        assert prices_count
        raced.append((tuple(builds), bool(applied_records_digest())))
        return BuildChoice(kept=kept, notes=("raced",), certain=True)

    monkeypatch.setattr("tvm_ios.profile.fastest_build.choose_build", choose_layout)
    monkeypatch.setattr(
        "tvm_ios.tuning.tuned_kernels.choose_build",
        lambda builds, _call: BuildChoice(kept=list(builds)[-1], notes=(), certain=True),
    )
    arguments = {"tuning_records": [log]}
    report = tune((mod, None), tmp_path, **arguments).report()
    assert raced == [(("layouts as they are", "NCHW"), True)]
    found = {kernel.found for kernel in report.records.kernels}
    if kept != "NCHW":  # a race may find that a record, or all of them, make nothing faster
        found -= {MissingReason.SLOWER, MissingReason.NOT_FASTER}
        assert found <= {RecordFormat.AUTO_SCHEDULER}
        return
    assert RecordFormat.AUTO_SCHEDULER not in found  # they are for the other layout
    again = tune((mod, None), tmp_path, **arguments).report()
    assert len(raced) == 1
    assert any(note.startswith("raced (raced on 2") for note in again.notes)
    assert any("laid out as NCHW" in note for note in again.notes)


@pytest.mark.slow(3)
def test_tuned_kernels_are_in_bfloat16_where_operators_are_the_same(fork, log):
    exact = prepare(*fork, TARGET)
    low = low_values(exact.extraction).most()
    untuned = build_prepared(with_low_precision(exact, low))
    for records in (nullcontext(), autotvm.apply_history_best(str(log))):
        with records:
            tuned = tuned_kernels._built_like(untuned, *fork)
            alike = tuned_kernels._operators_of(prepare(*fork, TARGET).extraction.graph)
        same = alike == tuned_kernels._operators_of(untuned.graph)
        assert tuned.prepared.low == (low if same else None)
    merged = tuned_kernels.merged_modules(tuned_kernels._in_float32(untuned, *fork))
    assert [str(each) for each in merged] == [
        str(each) for each in tuned_kernels.merged_modules(exact.extraction)
    ]
    assert all("bfloat16" not in str(each) for each in merged)
    plain = tuned_kernels._built_like(untuned, *fork)
    assert plain.graph.fingerprint() == untuned.graph.fingerprint()


@pytest.mark.slow(1)
def test_tuned_kernels_of_other_operators_are_in_float32(fork, branching):
    other = prepare(*branching, TARGET)
    low = low_values(other.extraction).most()
    untuned = build_prepared(with_low_precision(other, low))
    assert tuned_kernels._built_like(untuned, *fork).prepared.low is None


@pytest.mark.slow(5)
@needs_bfloat16
def test_a_call_with_records_keeps_bfloat16_or_says_so(fork, log, tmp_path, monkeypatch):
    def race(models, **_options):
        times = tuple(1e6 if "bfloat16" in name else 2e6 for name in models)
        row = CompareRound(run_ns=times, ping_pong_ns=0.0, slow=False)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    model = tvm_ios.tune(
        *fork,
        TARGET,
        lanes=1,
        database=tmp_path / "prices.sqlite",
        precision="bfloat16",
        tuning_records=log,
        options=TuneOptions(measure=MEASURE, compare=COMPARE),
    )
    report = model.report()
    assert report.story.precision.is_low == (model.schedule.low is not None)
    told = any("compute in float32 alone" in note for note in report.notes)
    assert told or model.schedule.low is not None
