"""Whole tunes on a device behind a real RPC tracker: priced there, kept apart, and right."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_ios
from tvm_ios import BuildOptions, DeviceOptions, SearchOptions, TuneOptions, TuningOptions
from tvm_ios.cli.main import main
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.errors import CostError, OptionError, TuningError
from tvm_ios.host import default_lanes, processor_name
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.support.progress import Progress

pytestmark = pytest.mark.slow  # a tracker, servers, and each runs compiled code

# A busy machine is no concern of these tests: no waiting for its fast mode, no price flagged.
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM)
COMPARE = CompareOptions(rounds=6, min_repeat_ms=0.5, mode=CALM)
QUICK = TuneOptions(
    measure=MEASURE, compare=COMPARE, build=BuildOptions(libraries=(), pad_channels=False)
)
TARGET = "llvm -opt-level=0"  # LLVM need not optimise what runs a few times


def tune(
    model: Any, device: Any, folder: Path, *, options: TuneOptions = QUICK, **arguments: Any
) -> tvm_ios.CompiledModel:
    if device is not None:
        where = DeviceOptions(rpc_tracker=device.address, rpc_key=device.key)
        options = replace(options, device=where)
    settings: dict[str, Any] = {"target": TARGET, "database": folder / "prices.sqlite"}
    return tvm_ios.tune(*model, options=options, **settings, **arguments)


def output(model: tvm_ios.CompiledModel, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    with model.executor() as executor:
        executor.run(**inputs)
        return executor.get_output(0).numpy().copy()


def devices_of_prices(folder: Path) -> dict[str, int]:
    """How many prices there are of each device."""
    with sqlite3.connect(folder / "prices.sqlite") as connection:
        rows = connection.execute(
            "SELECT json_extract(description, '$.device'), count(*) FROM contexts "
            "JOIN prices ON context = digest GROUP BY 1"
        ).fetchall()
    connection.close()
    return dict(rows)


def test_prices_of_a_device_are_its_own_and_kept(fork, loopback_tracker, tmp_path):
    model = tune(fork, loopback_tracker, tmp_path, lanes=1)
    report = model.report()
    assert report.measured > 0
    assert any("raced on the device with key 'loopback'" in note for note in report.notes)
    name = f"{processor_name()}, RPC key loopback"
    assert devices_of_prices(tmp_path) == {name: report.measured}
    # Nothing is measured twice, and nothing of it is a price of this machine.
    again = tune(fork, loopback_tracker, tmp_path, lanes=1).report()
    assert (again.measured, again.from_database) == (0, report.measured)
    here = tune(fork, None, tmp_path, lanes=1).report()
    assert here.from_database == 0
    assert set(devices_of_prices(tmp_path)) == {name, processor_name()}
    assert loopback_tracker.becomes_free()


def test_a_model_with_truth_values_is_tuned_on_a_device(masked, loopback_tracker, tmp_path):
    model = tune(masked, loopback_tracker, tmp_path, lanes=1)
    assert model.report().measured > 0
    order = tvm_ios.compile_schedule(*masked, TARGET, schedule=sequential_schedule(model.graph))
    random = np.random.default_rng(0)
    inputs = {
        "data": random.standard_normal((1, 16, 8, 8)).astype("float32"),
        "mask": random.random((1, 16, 8, 8)) > 0.5,
    }
    np.testing.assert_array_equal(output(model, inputs), output(order, inputs))
    assert loopback_tracker.becomes_free()


def test_more_lanes_than_the_device_has_are_refused(branching, loopback_tracker, tmp_path):
    with pytest.raises(OptionError, match="lanes is 999, but the device with key .* has"):
        tune(branching, loopback_tracker, tmp_path, lanes=999)
    assert loopback_tracker.becomes_free()


def test_a_tracker_without_the_device_is_named(branching, bare_tracker, tmp_path):
    with pytest.raises(TuningError, match="has no device with key 'nobody'"):
        tune(branching, bare_tracker, tmp_path)


def test_a_network_is_scheduled_on_lanes_of_a_device(branching, loopback_tracker, tmp_path):
    options = replace(QUICK, search=SearchOptions(list_only=True))
    model = tune(branching, loopback_tracker, tmp_path, options=options)
    assert model.plan.lanes <= default_lanes()
    order = tvm_ios.compile_schedule(*branching, TARGET, schedule=sequential_schedule(model.graph))
    image = {"data": np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype("float32")}
    np.testing.assert_allclose(output(model, image), output(order, image), rtol=1e-4, atol=1e-5)
    assert set(devices_of_prices(tmp_path)) == {f"{processor_name()}, RPC key loopback"}
    assert loopback_tracker.becomes_free()


def test_kernels_and_stages_are_measured_on_one_device(fork, loopback_tracker, tmp_path):
    model = tune(
        fork,
        loopback_tracker,
        tmp_path,
        tuning="autotvm",
        tuning_records=tmp_path / "kernels.log",
        options=replace(
            QUICK,
            kernels=TuningOptions(trials=1, number=1, repeat=1, min_repeat_ms=0),
            build=BuildOptions(pad_channels=True),
        ),
    )
    report = model.report()
    assert "conv2d" in report.tuning
    assert {"tune", "check tuned", "search", "compare"} <= report.phase_s.keys()
    assert (tmp_path / "kernels.log").read_text()
    assert loopback_tracker.becomes_free()


def test_a_server_killed_while_it_prices_costs_nothing_but_an_error(
    branching, start_rpc_server, tmp_path
):
    def kill(step: Progress) -> None:
        if step.phase == "search" and (step.done or 0) > 0:
            device.kill()

    with start_rpc_server("doomed") as device, pytest.raises(CostError) as caught:
        tune(branching, device, tmp_path, progress=kill)
    message = str(caught.value)
    assert "key 'doomed' of the RPC tracker at host '127.0.0.1'" in message
    assert "prices so far are kept" in message
    (kept,) = devices_of_prices(tmp_path).values()
    assert kept > 0
    with start_rpc_server("doomed") as device:
        report = tune(branching, device, tmp_path).report()
        assert report.from_database > 0
        assert device.becomes_free()


def test_an_interrupt_gives_the_device_back(branching, start_rpc_server, tmp_path):
    def interrupt(step: Progress) -> None:
        if step.phase == "search" and (step.done or 0) > 0:
            raise KeyboardInterrupt

    with start_rpc_server("patient") as device:
        with pytest.raises(KeyboardInterrupt) as caught:
            tune(branching, device, tmp_path, progress=interrupt)
        assert any("measured prices are kept" in note for note in caught.value.__notes__)
        assert device.becomes_free()


def test_the_command_prices_on_the_device_too(
    fork, loopback_tracker, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    mod, params = fork
    (tmp_path / "net.json").write_text(tvm.ir.save_json(mod))
    (tmp_path / "net.params").write_bytes(tvm.runtime.save_param_dict(params))
    (tmp_path / "quick.toml").write_text("measure = {repeat = 1, max_repeat = 1}\n")
    words = ["tune", "net.json", "--params", "net.params", "--config", "quick.toml"]
    words += ["--database", "prices.sqlite", "--list-only"]
    words += ["--rpc-tracker", loopback_tracker.address, "--key", loopback_tracker.key]
    assert main(["-v", *words]) == 0
    assert "raced on the device with key 'loopback'" in capsys.readouterr().out
    assert set(devices_of_prices(tmp_path)) == {f"{processor_name()}, RPC key loopback"}
    assert loopback_tracker.becomes_free()
