"""The chain on real networks: verbs in any order, saved runs in other processes, service levels."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tvm

import tvm_ios
from tvm_ios import (
    BuildOptions,
    CompareOptions,
    MeasureOptions,
    SearchOptions,
    SimpleTVM,
    TuneOptions,
)
from tvm_ios import TuningOptions as Kernels
from tvm_ios.driver.chain import tune_to_level
from tvm_ios.driver.chain.run_folder import RunFolder, RunReport
from tvm_ios.errors import ArtifactError, ExecutionError, ModelError, OptionError, TuningError
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.models import nasnet_small
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.records.records import read_records

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"  # LLVM need not optimise what runs a few times
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
QUICK = TuneOptions(
    measure=MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM),
    compare=CompareOptions(rounds=6, min_repeat_ms=0.5, mode=CALM),
    build=BuildOptions(libraries=(), pad_channels=False),  # so forms are stock, and tasks the same
    kernels=Kernels(number=1, repeat=1, min_repeat_ms=0),
)
SHAPE = (1, 16, 8, 8)


def chain(folder, **arguments):
    given = {"options": QUICK, "lanes": 1, "database": folder / "prices.sqlite"} | arguments
    return SimpleTVM(TARGET, **given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chain")


@pytest.fixture(scope="module")
def saved(fork, folder):
    """A chain without tuning, from the model to the evaluation."""
    return chain(folder).from_model(fork).build().save().evaluate()


@pytest.fixture(scope="module")
def log(fork, folder, sharing):
    """Two candidates of every kernel of the fork."""
    path, options = folder / "known.log", replace(QUICK.kernels, trials=2)
    with sharing():
        AutoTvmBackend().tune(*fork, tvm.target.Target(TARGET), path, options)
    return path


@pytest.fixture
def image():
    return np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


# ---- Refusals ----


@pytest.mark.parametrize(
    ("verbs", "told"),
    [
        (["autotune"], r"call \.from_model\(…\) before \.autotune\(\)"),
        (["build"], r"call \.from_model\(…\) before \.build\(\)"),
        (["save"], r"call \.from_model\(…\) before \.save\(\)"),
        (["evaluate"], r"call \.from_model\(…\) before \.evaluate\(\)"),
        (["from_model", "save"], r"call \.build\(\) before \.save\(\)"),
        (["from_model", "evaluate"], r"call \.build\(\) before \.evaluate\(\)"),
        (["from_model", "report"], r"call \.build\(\) before \.report\(\)"),
    ],
)
def test_a_verb_too_early_names_the_missing_one(fork, verbs, told, tmp_path):
    made = chain(tmp_path)
    *first, last = verbs
    for _ in first:
        made.from_model(fork)
    with pytest.raises(OptionError, match=told):
        getattr(made, last)()


def test_run_too_early_names_the_missing_verb(fork, image, tmp_path):
    with pytest.raises(OptionError, match=r"call \.build\(\) before \.run\(\)"):
        chain(tmp_path).from_model(fork).run(image)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tuner": "ansor"}, "tuner is 'ansor'; give 'autotvm' or 'auto_scheduler'"),
        ({"sla_ms": 0}, "sla_ms is 0; give milliseconds above 0"),
        ({"trials": 0}, "trials is 0; give a whole number of 1 or more"),
        ({"time_budget": -1}, "time_budget is -1"),
    ],
)
def test_bad_arguments_of_autotune_are_refused_before_any_work(fork, arguments, told, tmp_path):
    made = chain(tmp_path).from_model(fork)
    with pytest.raises(OptionError, match=told):
        made.autotune(**arguments)
    assert [step.step for step in made.context.steps] == ["from_model"]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("squeezenut", "no network and no file named 'squeezenut'"),
        (3, "the model is a int; give a module of TVM"),
        ("net.pb", "no network and no file named 'net.pb'"),
    ],
)
def test_what_is_no_model_is_refused(model, told, tmp_path):
    with pytest.raises(ModelError, match=told):
        chain(tmp_path).from_model(model)


def test_a_tracker_needs_a_key():
    with pytest.raises(OptionError, match="give both"):
        SimpleTVM(rpc_tracker="127.0.0.1:9190")


def test_a_device_keeps_the_compiler_of_the_options():
    options = TuneOptions(device=DeviceOptions(cross_compiler="aarch64-linux-gnu-gcc"))
    made = SimpleTVM(rpc_tracker="host:9190", rpc_key="pi", options=options)
    assert made._setup.options.device == DeviceOptions(
        rpc_tracker="host:9190", rpc_key="pi", cross_compiler="aarch64-linux-gnu-gcc"
    )


def test_other_options_keep_the_device_of_the_chain(fork, folder):
    made = chain(folder, rpc_tracker="127.0.0.1:9", rpc_key="pi").from_model(fork)
    with pytest.raises(TuningError, match=r"127\.0\.0\.1:9"):  # nothing listens there
        made.build(options=QUICK)


# ---- Runs ----


@pytest.mark.slow
def test_a_run_is_saved_with_its_latency_and_the_time_of_every_step(saved):
    report = saved.report()
    assert [step.step for step in report.context.steps] == [
        "from_model",
        "build",
        "save",
        "evaluate",
    ]
    (build,) = (step for step in report.context.steps if step.step == "build")
    assert {"build", "search", "lower", "compare"} <= set(build.calls[0])
    assert sum(build.calls[0].values()) <= build.seconds
    assert report.latency.low_ms <= report.latency.median_ms <= report.latency.high_ms
    assert (report.inputs, report.lanes, report.model) == (("data",), 1, "model")
    folder = RunFolder.find(saved.run_id)
    assert RunReport.from_json(folder.report_path.read_text()) == report
    tuned = json.loads((folder.path / "tune.json").read_text())
    assert tuned["kept"] == saved.model.report().kept.value
    assert (folder.path / "schedule.json").read_text().strip() == saved.model.schedule.to_json()


@pytest.mark.slow
def test_run_takes_an_array_or_a_mapping_and_returns_arrays(saved, image, fork, reference_build):
    from tvm.contrib import graph_executor

    (found,) = saved.run(image)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, *saved.run({"data": image}))
    stock = graph_executor.GraphModule(reference_build(*fork, TARGET)["default"](tvm.cpu()))
    stock.run(data=image)
    np.testing.assert_allclose(found, stock.get_output(0).numpy(), rtol=1e-4, atol=1e-5)
    before = found.copy()
    saved.run(image + 1)
    np.testing.assert_array_equal(found, before)  # a copy, not the executor's memory
    with pytest.raises(OptionError, match="no input 'dato'; the inputs are 'data'"):
        saved.run({"dato": image})
    with pytest.raises(OptionError, match="input 'data' is missing; the inputs are 'data'"):
        saved.run({})
    with pytest.raises(ExecutionError, match="input 'data' is float32"):
        saved.run(image[:, :3])
    saved.close()
    np.testing.assert_array_equal(*saved.run(image), found)


@pytest.mark.slow
def test_a_run_is_loaded_in_another_process(saved, image, run_python, tmp_path, project_root):
    np.save(tmp_path / "in.npy", image)
    code = (
        "import sys, numpy as np, tvm_ios\n"
        "run, folder = sys.argv[1:]\n"
        "chain = tvm_ios.SimpleTVM().load(run)\n"
        "(found,) = chain.run(np.load(folder + '/in.npy'))\n"
        "np.save(folder + '/out.npy', found)\n"
        "print(chain.evaluate().report().to_json())\n"
    )
    done = run_python(
        "-c", code, saved.run_id, str(tmp_path), PYTHONPATH=str(project_root), TVM_NUM_THREADS="1"
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), *saved.run(image))
    report = RunReport.from_json(done.stdout)
    assert report.run_id == saved.run_id
    assert [step.step for step in report.context.steps][-2:] == ["load", "evaluate"]


@pytest.mark.slow
def test_a_loaded_run_has_no_model_to_build(saved):
    loaded = SimpleTVM().load(saved.run_id)
    assert loaded.report().model == "model"
    with pytest.raises(OptionError, match=r"is built already; call \.from_model"):
        loaded.build()
    with pytest.raises(ArtifactError, match="no run 'other'"):
        loaded.load("other")
    assert loaded.from_model("nasnet_small").latency is None


# ---- Service levels ----


@pytest.mark.slow
def test_a_level_that_known_records_meet_needs_no_tuning(fork, log, folder, monkeypatch):
    monkeypatch.setattr(tune_to_level, "logs_in", lambda: (log,))
    before = log.read_bytes()
    made = chain(folder).from_model(fork)
    made.autotune(sla_ms=1e6, trials=2, records=folder / "unused.log").build()
    level = made.service_level
    assert level.is_met
    assert [answer.trials for answer in level.answers] == [0]
    autotune, build = made.context.steps[1:]
    assert len(autotune.calls) == 1
    assert "tune" not in autotune.calls[0]  # nothing was measured for a tuner
    assert build.calls == ()  # what answered is what is built
    assert log.read_bytes() == before
    assert not (folder / "unused.log").exists()
    assert made.report().logs == (str(log),)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_level_out_of_reach_is_told(fork, log, folder, monkeypatch):
    monkeypatch.setattr(tune_to_level, "logs_in", lambda: (log,))
    made = chain(folder).from_model(fork)
    made.autotune(sla_ms=1e-6, trials=3, records=log).build()
    level = made.service_level
    assert not level.is_met
    assert [answer.trials for answer in level.answers] == [0, 3]  # two are known of each task
    assert len(read_records(log).records) == 9  # the two kernels, and that of their merge
    assert made.latency == min(
        (each.latency for each in level.answers), key=lambda found: found.median_ms
    )
    assert "service level 1e-06 ms: not met" in made.report().as_text()


@pytest.mark.slow
def test_other_options_search_anew_with_the_records_of_the_tuning(fork, log, folder):
    made = chain(folder).from_model(fork).autotune(trials=1, records=log).build()
    first = made.model
    assert made.build().model is first
    narrow = replace(QUICK, search=SearchOptions(max_num_groups=1))
    assert made.build(options=narrow).model is not first
    assert made.model.records.logs == (log,)


@pytest.mark.slow
def test_a_chain_measures_on_a_device_of_a_tracker(fork, loopback_tracker, image, folder):
    device = loopback_tracker
    made = SimpleTVM(
        TARGET,
        rpc_tracker=device.address,
        rpc_key=device.key,
        lanes=1,
        database=folder / "prices.sqlite",
        options=QUICK,
    )
    made.from_model(fork).build().evaluate()
    assert made.latency.median_ms > 0
    here = tvm_ios.compile_schedule(*fork, TARGET, schedule=made.model.schedule, lanes=1)
    with here.executor() as executor:
        executor.run(data=image)
        expected = executor.get_output(0).numpy().copy()
    np.testing.assert_array_equal(*made.run(image), expected)
    assert device.becomes_free()  # nothing holds it between the verbs


@pytest.mark.full  # a chain from a model of the caller goes the whole way in make test
@pytest.mark.slow
def test_a_benchmark_network_goes_the_whole_way(folder):
    made = SimpleTVM(database=folder / "prices.sqlite", options=QUICK)
    made.from_model(nasnet_small(filters=16, size=8, num_cells=1)).build(
        time_budget=20.0
    ).save().evaluate()
    data = np.zeros((1, 3, 16, 16), "float32")
    (found,) = SimpleTVM().load(made.run_id).run(data)
    np.testing.assert_array_equal(found, *made.run(data))
