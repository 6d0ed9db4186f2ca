"""Stages of built libraries on a device over RPC: prepared, timed, and refused as they are here."""

from __future__ import annotations

from functools import partial

import pytest

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.devices.remote import RemoteDevice
from tvm_ios.errors import CostError, HostError, OptionError
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.search.baselines import sequential_schedule

pytestmark = pytest.mark.slow  # a tracker, servers, and each runs compiled code


def device_of(tracker, **changes):
    address = DeviceAddress(host=tracker.host, port=tracker.port, key=tracker.key, **changes)
    return RemoteDevice(address=address, cores=1, processor="Mite 3", target="llvm")


def add_library(runner, session, kernels):
    views = [placement.view for placement in kernels.staged.placements]
    staged = kernels.staged
    return runner.add_library(partial(session.export, kernels), staged.graph, staged.params, views)


def time_until_it_fails(handle):
    """A process that was killed may still answer once."""
    while True:
        handle.time_ns(1)


@pytest.fixture(scope="module")
def session(loopback_tracker):
    with device_of(loopback_tracker).open() as session:
        yield session


@pytest.fixture(scope="module")
def built(branching):
    return build_model(*branching, "llvm -opt-level=0")


@pytest.fixture(scope="module")
def kernels(built):
    return built.kernels


@pytest.fixture(scope="module")
def runner(session):
    runner = session.stage_runner(1)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def library(runner, session, kernels):
    return add_library(runner, session, kernels)


def test_prices_are_kept_under_what_the_device_is(loopback_tracker):
    device = device_of(loopback_tracker)
    assert device.name == "Mite 3, RPC key loopback"
    assert f"port {loopback_tracker.port} (Mite 3, cores: 1)" in device.as_text()
    assert device.notes == (f"priced and raced on {device.as_text()}",)


def test_any_stage_of_a_library_takes_time(runner, library, kernels):
    count = len(kernels.staged.graph.operators)
    whole = runner.prepare([[(library, index) for index in range(count)]], copies=3)
    beside = runner.prepare([[(library, index)] for index in range(count)])
    alone = runner.prepare([[(library, 0)]], unsplit=[(library, 0)])
    for handle in (whole, beside, alone):
        assert handle.time_ns(3) > 0
    assert runner.prepare([]).time_ns(10) == 0
    assert runner.ping_pong_ns() == 0


def test_a_whole_model_is_timed_there(session, built):
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    executor = session.executor(model)
    assert executor.time_ns(2) > 0
    executor.close()


def test_kernels_are_linked_and_uploaded_once(session, kernels, runner, library):
    path = session.export(kernels)
    assert session.export(kernels) == path
    assert session.processor.kernels(path, {}) is session.processor.kernels(path, {})


def test_another_compiler_links_for_the_device(start_rpc_server, kernels, tmp_path):
    compiler = tmp_path / "board-gcc"
    compiler.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nexec cc "$@"\n')
    compiler.chmod(0o755)
    command = f"{compiler} -O1"
    with start_rpc_server("board") as tracker:
        with device_of(tracker, cross_compiler=command).open() as session:
            runner = session.stage_runner(1)
            path = session.export(kernels)
            number = add_library(runner, session, kernels)
            assert runner.prepare([[(number, 0)]]).time_ns(2) > 0
        calls = (tmp_path / "board-gcc.log").read_text()
        assert "remote_lanes.c" in calls
        assert str(path) in calls
        assert "-O1" in calls.splitlines()[-1]
        assert tracker.becomes_free()


def test_a_compiler_that_cannot_link_is_named(session, kernels, monkeypatch):
    address = DeviceAddress(host="h", port=1, key="k", cross_compiler="false")
    monkeypatch.setattr(session.processor, "address", address)
    monkeypatch.setattr(session, "_exported", {})
    with pytest.raises(HostError, match="false cannot link kernels"):
        session.export(kernels)


def test_more_lanes_than_cores_are_refused(session):
    with pytest.raises(OptionError, match="lanes is 999, but the device with key"):
        session.stage_runner(999)


def test_a_lost_device_is_named(start_rpc_server, kernels):
    with start_rpc_server("lost") as tracker, device_of(tracker).open() as session:
        runner = session.stage_runner(1)
        number = add_library(runner, session, kernels)
        handle = runner.prepare([[(number, 0)]])
        tracker.kill()
        with pytest.raises(CostError, match=r"key 'lost'.* was lost: .*prices so far are kept"):
            time_until_it_fails(handle)
        runner.close()
