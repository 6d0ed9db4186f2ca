"""Stages of built libraries on a device: prepared, timed, and refused as they are here."""

from __future__ import annotations

import pytest

from tvm_ios.errors import CostError, HostError, OptionError
from tvm_ios.runtime.measuring import session_on
from tvm_ios.runtime.remote_address import DeviceAddress
from tvm_ios.runtime.remote_device import RemoteDevice
from tvm_ios.runtime.stage_runner import NativeStageRunner

pytestmark = pytest.mark.slow  # a tracker, servers, and each runs compiled code


def device_of(tracker, **changes):
    address = DeviceAddress(host=tracker.host, port=tracker.port, key=tracker.key, **changes)
    return RemoteDevice(address=address, cores=1, processor="Mite 3", target="llvm")


def time_until_it_fails(runner, handle):
    """A process that was killed may still answer once."""
    while True:
        runner.time_ns(handle, 1)


@pytest.fixture(scope="module")
def session(loopback_tracker):
    with device_of(loopback_tracker).open() as session:
        yield session


@pytest.fixture(scope="module")
def built(build_random):
    return build_random(seed=12, size=12, opt_level=2)


@pytest.fixture(scope="module")
def runner(session):
    runner = NativeStageRunner(lanes=1, on=session.stage_lanes(1))
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def library(runner, session, built):
    path = session.export(built.factory)
    return runner.add_library(path, built.graph, built.factory.get_params(), built.views)


def test_this_machine_needs_no_session():
    with session_on(None) as session:
        assert session is None


def test_prices_are_kept_under_what_the_device_is(loopback_tracker):
    device = device_of(loopback_tracker)
    assert device.name == "Mite 3, RPC key loopback"
    assert f"port {loopback_tracker.port} (Mite 3, cores: 1)" in device.as_text()


def test_any_stage_of_a_library_takes_time(runner, library, built):
    count = len(built.graph.operators)
    whole = runner.prepare([[(library, index) for index in range(count)]], copies=3)
    beside = runner.prepare([[(library, index)] for index in range(count)])
    alone = runner.prepare([[(library, 0)]], unsplit=[(library, 0)])
    for handle in (whole, beside, alone):
        assert runner.time_ns(handle, 3) > 0
    assert runner.time_ns(runner.prepare([]), 10) == 0
    assert runner.ping_pong_ns() == 0


def test_kernels_are_linked_and_uploaded_once(session, built, runner, library):
    path = session.export(built.factory)
    assert session.export(built.factory) == path
    assert session.kernels(path, {}) is session.kernels(path, {})


def test_another_compiler_links_for_the_device(start_rpc_server, built, tmp_path):
    compiler = tmp_path / "board-gcc"
    compiler.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nexec cc "$@"\n')
    compiler.chmod(0o755)
    command = f"{compiler} -O1"
    with start_rpc_server("board") as tracker:
        with device_of(tracker, cross_compiler=command).open() as session:
            runner = NativeStageRunner(lanes=1, on=session.stage_lanes(1))
            path = session.export(built.factory)
            number = runner.add_library(path, built.graph, built.factory.get_params(), built.views)
            assert runner.time_ns(runner.prepare([[(number, 0)]]), 2) > 0
        calls = (tmp_path / "board-gcc.log").read_text()
        assert "remote_lanes.c" in calls
        assert str(path) in calls
        assert "-O1" in calls.splitlines()[-1]
        assert tracker.becomes_free()


def test_a_compiler_that_cannot_link_is_named(loopback_tracker, session, built, monkeypatch):
    address = DeviceAddress(host="h", port=1, key="k", cross_compiler="false")
    monkeypatch.setattr(session, "_connection", type("C", (), {"address": address}))
    monkeypatch.setattr(session, "_exported", {})
    with pytest.raises(HostError, match="false cannot link kernels"):
        session.export(built.factory)


def test_more_lanes_than_cores_are_refused(session):
    with pytest.raises(OptionError, match="999 lanes were asked for, but the device with key"):
        session.stage_lanes(999)


def test_a_lost_device_is_named(start_rpc_server, built):
    with start_rpc_server("lost") as tracker, device_of(tracker).open() as session:
        runner = NativeStageRunner(lanes=1, on=session.stage_lanes(1))
        path = session.export(built.factory)
        params = built.factory.get_params()
        number = runner.add_library(path, built.graph, params, built.views)
        handle = runner.prepare([[(number, 0)]])
        tracker.kill()
        with pytest.raises(CostError, match=r"key 'lost'.* was lost: .*prices so far are kept"):
            time_until_it_fails(runner, handle)
        runner.close()
