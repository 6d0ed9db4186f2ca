"""``tune`` of models in Relax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from tests.relax.networks import TARGET, Network, answers, inception_block
from tests.relax.onnx_networks import branches, onnx
from tvm_ios.core.conversion import Conversion
from tvm_ios.driver.build_options import BuildOptions
from tvm_ios.driver.dialects.relax_options import relax_options
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.tune import tune_race
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.relax.prepare import prepare
from tvm_ios.report.contestants import Contestant
from tvm_ios.search.options import SearchOptions

CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
OPTIONS = TuneOptions(
    measure=MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM),
    compare=CompareOptions(rounds=6, min_repeat_ms=0.1, mode=CALM),
)
"""Options with which all is measured in no time, and decides nothing for sure."""
OWN_KERNELS = replace(OPTIONS, build=BuildOptions(libraries=()))


def ran(model, value) -> np.ndarray:
    with model.executor() as executor:
        executor.run(x=value)
        return executor.get_output(0).numpy()


def two_convolutions():
    """Convolutions of 32 channels that oneDNN computes many times as fast, a value, an answer."""
    network = Network(1, 32, 14, 14)
    mod = network.build(lambda net: net.conv(net.conv(net.x, 32, 3), 32, 3))
    value = network.value()
    return mod, value, answers(mod, value)[0]


def two_branches():
    """Three convolutions, of which one may run beside the others, and a value."""
    network = Network(1, 8, 8, 8)

    def body(net: Network) -> relax.Var:
        branches = [net.conv(net.x, 4, 1), net.conv(net.conv(net.x, 4, 1), 8, 3)]
        return net.emit(relax.op.concat(branches, axis=1))

    return network.build(body), network.value()


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """Two branches tuned without libraries: race, value, the virtual machine's answer."""
    mod, value = two_branches()
    database = tmp_path_factory.mktemp("prices") / "profiles.sqlite"
    call = TuneCall(mod=mod, target=TARGET, lanes=2, database=database, options=OWN_KERNELS)
    return tune_race(call), value, answers(prepare(mod, None, TARGET).module, value)[0]


@pytest.mark.slow(1)
def test_every_contestant_has_the_bits_of_the_virtual_machine(raced):
    race, value, answer = raced
    models = race.models
    assert {Contestant.SEQUENTIAL, Contestant.GREEDY} <= set(models)
    for model in (*models.values(), race.kept):
        assert not any(launch.call for launch in model.plan.launches)
        np.testing.assert_array_equal(ran(model, value), answer)


def test_the_kept_model_has_a_report_and_a_file(raced, tmp_path):
    race, value, answer = raced
    report = race.kept.report()
    assert report.kept in race.racers
    count = len(race.kept.graph)
    assert f"{count} of {count} operators scheduled" in report.as_text()
    assert report.comparison.names[0] == "sequential"
    assert report.measured > 0
    race.kept.export_library(tmp_path / "net.so")
    with tvm_ios.load(tmp_path / "net.so") as executor:
        executor.run(x=value)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), answer)


@pytest.mark.slow(1)
def test_onednn_computes_where_it_is_faster(tmp_path):
    mod, value, answer = two_convolutions()
    tuned = tvm_ios.tune(mod, None, TARGET, lanes=1, options=OPTIONS, database=tmp_path / "db")
    calls = [launch.operator for launch in tuned.plan.launches if launch.call is not None]
    assert len(calls) == 2
    assert "oneDNN" in tuned.report().as_text()
    found = ran(tuned, value)
    np.testing.assert_allclose(found, answer, rtol=1e-4, atol=1e-4)
    tuned.export_library(tmp_path / "net.so")
    with tvm_ios.load(tmp_path / "net.so") as executor:
        executor.run(x=value)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), found)


@pytest.mark.slow
def test_libraries_race_beside_tvms_kernels_in_the_layout_that_was_kept(tmp_path):
    mod, value, answer = two_convolutions()
    call = TuneCall(mod=mod, target=TARGET, lanes=2, database=tmp_path / "db", options=OPTIONS)
    raced = tune_race(call)
    for model in raced.models.values():
        np.testing.assert_allclose(ran(model, value), answer, rtol=1e-4, atol=1e-4)
    assert "images are in N" in raced.kept.report().as_text()


@pytest.mark.slow(1)
def test_exact_leaves_libraries_out(tmp_path):
    mod, value, _ = two_convolutions()
    options = replace(OPTIONS, build=BuildOptions(exact=True))
    tuned = tvm_ios.tune(mod, None, TARGET, lanes=1, options=options, database=tmp_path / "db")
    assert not any(launch.call for launch in tuned.plan.launches)
    stock = tvm.compile(mod, target=tvm.target.Target(TARGET))
    machine = tvm.relax.VirtualMachine(stock, tvm.cpu())
    answer = machine["main"](tvm.runtime.tensor(value)).numpy()
    np.testing.assert_array_equal(ran(tuned, value), answer)


def test_thorough_needs_no_kernel_tuner_in_relax():
    thorough = relax_options(TuneOptions.of("thorough"))
    assert thorough.kernels.backend == "none"
    assert thorough.search == TuneOptions.of("thorough").search
    with pytest.raises(OptionError, match="tuning='autotvm' needs a TVM with Relay"):
        relax_options(TuneOptions.of("thorough", kernels={"trials": 3}))


@pytest.mark.slow(3)
def test_prices_are_kept_for_equal_calls(tmp_path):
    mod, _ = two_branches()
    call = {"lanes": 2, "database": tmp_path / "profiles.sqlite", "options": OPTIONS}
    first = tvm_ios.tune(mod, None, TARGET, **call).report()
    again = tvm_ios.tune(mod, None, TARGET, **call).report()
    assert first.from_database == 0
    assert again.from_database > 0


@pytest.mark.slow
def test_quick_predicts_instead_of_measuring(tmp_path):
    mod, value = two_branches()
    options = replace(
        OWN_KERNELS,
        measure=replace(OPTIONS.measure, predict=True),
        search=SearchOptions(list_only=True),
    )
    tuned = tvm_ios.tune(mod, None, TARGET, lanes=2, options=options, database=tmp_path / "db")
    report = tuned.report()
    assert any("are predictions by the speeds of a lane" in note for note in report.notes)
    assert report.measured == 0  # nobody else computes, so no price is close to another
    answer = answers(prepare(mod, None, TARGET).module, value)[0]
    np.testing.assert_array_equal(ran(tuned, value), answer)


@pytest.mark.slow
@pytest.mark.parametrize("as_file", [True, False])
def test_a_model_of_onnx_is_tuned(as_file, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, path = branches(), tmp_path / "net.onnx"
    onnx.save(model, path)
    value = np.random.default_rng(1).standard_normal((1, 8, 10, 10)).astype("float32")
    given = str(path) if as_file else model
    tuned = tvm_ios.tune(given, None, TARGET, lanes=1, options=OPTIONS, database=tmp_path / "db")
    with tuned.executor() as executor:
        executor.run(x=value)
        found = executor.get_output(0).numpy()
    session = onnxruntime.InferenceSession(path)
    np.testing.assert_allclose(found, session.run(None, {"x": value})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_time_budget_that_is_over_leaves_sequential_order(tmp_path):
    mod, _ = inception_block()
    report = tvm_ios.tune(
        mod, None, TARGET, lanes=2, database=tmp_path / "db", options=OPTIONS, time_budget=0.001
    ).report()
    assert report.kept is Contestant.SEQUENTIAL
    assert "operators were not priced" in report.as_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tuning": "autotvm"}, "tuning='autotvm' needs a TVM with Relay"),
        (
            {"options": TuneOptions(conversion=Conversion(desired_layout="NHWC"))},
            "desired_layout='NHWC' needs a TVM with Relay.*layout of images is chosen by prices",
        ),
    ],
)
def test_what_needs_relay_is_refused_in_one_line(given, message):
    mod, _ = inception_block()
    with pytest.raises(OptionError, match=message) as caught:
        tvm_ios.tune(mod, None, TARGET, **given)
    assert "\n" not in str(caught.value)
    assert "--dialect relay" in str(caught.value)


def test_a_module_without_main_is_refused():
    with pytest.raises(ModelError, match="expected a tvm.IRModule with a function 'main'"):
        tvm_ios.tune(tvm.IRModule())


def test_exact_searches_no_merges(tmp_path):
    """Four convolutions of one small image, which every machine would rather merge."""
    network = Network(1, 4, 6, 6)
    mod = network.build(
        lambda net: net.emit(relax.op.concat([net.conv(net.x, 4, 1) for _ in range(4)], axis=1))
    )
    options = replace(OPTIONS, build=BuildOptions(exact=True))
    call = TuneCall(
        mod=mod, target=TARGET, lanes=1, database=tmp_path / "prices.sqlite", options=options
    )
    schedules = [racer.schedule for racer in tune_race(call).racers.values()]
    assert not any(stage.is_merge for each in schedules for stage in each.stages)
