"""Batches on devices that are lost, and candidates that bring them down."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, repeat

import pytest

from tvm_ios.errors import OptionError, TuningError
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.support.stage_gate import GrantedStage, StageNeed
from tvm_ios.tuning.measured_batch import (
    BatchDevice,
    device_answers,
    measure_batch,
)

NEED = StageNeed.to_profile(1)


@dataclass
class Devices:
    """Devices by name, each with the place of the candidate at which it goes away."""

    gate: object
    ends: dict[str, int] = field(default_factory=dict)
    killers: frozenset[int] = frozenset()
    """Candidates that bring any device down."""
    hanging: frozenset[int] = frozenset()
    """Candidates that die, while their device lives on."""
    runs: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    kept: list[list[str]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def run(self, granted, places):
        self.runs.append((granted.device, tuple(places)))
        return [self._result(granted.device, place) for place in places]

    def _result(self, device, place):
        if self.ends.get(device) == place or place in self.killers:
            self.gone.add(device)
        died = device in self.gone or place in self.hanging
        return "died" if died else f"{place} on {device}"

    def keep(self, _places, results):
        assert self.gate.is_open, "records are written before the device is free"
        self.kept.append(list(results))

    def batch(self, size, known=None):
        device = BatchDevice(
            run=self.run,
            died=lambda result: result == "died",
            lost=lambda granted: granted.device in self.gone,
            keep=self.keep,
        )
        return measure_batch(self.gate, NEED, size, device, known)


def granting(names, *, second_try=False):
    return (
        GrantedStage(cores=(0,), device=name, second_try=second_try)
        for name in chain(names, repeat("last"))
    )


def test_a_batch_is_measured_once_where_nothing_happens(recording_gate):
    devices = Devices(recording_gate(grants=granting("a")))
    assert devices.batch(3) == ["0 on a", "1 on a", "2 on a"]
    assert devices.kept == [["0 on a", "1 on a", "2 on a"]]
    assert devices.gate.events == ["begin profile", "end profile"]


def test_what_a_lost_device_left_goes_to_the_next_and_nothing_failed(recording_gate):
    devices = Devices(recording_gate(grants=granting("ab")), ends={"a": 1})
    assert devices.batch(3) == ["0 on a", "1 on b", "2 on b"]
    assert devices.runs == [("a", (0, 1, 2)), ("b", (1, 2))]
    assert len(devices.kept) == 1
    assert devices.gate.events == [
        "begin profile",
        "lost",
        "end profile",
        "begin profile",
        "end profile",
    ]


def test_a_candidate_that_brings_down_two_devices_has_failed(recording_gate):
    devices = Devices(recording_gate(grants=granting("abc")), killers=frozenset({1}))
    assert devices.batch(3) == ["0 on a", "died", "2 on c"]
    assert devices.runs == [("a", (0, 1, 2)), ("b", (1, 2)), ("c", (2,))]
    assert len(devices.kept) == 1


def test_the_last_candidate_may_be_the_one(recording_gate):
    devices = Devices(recording_gate(grants=granting("ab")), killers=frozenset({0}))
    assert devices.batch(1) == ["died"]
    assert devices.kept == [["died"]]
    assert devices.gate.events[-2:] == ["lost", "end profile"]


@pytest.mark.parametrize(("second_try", "runs"), [(False, [(0, 1)]), (True, [(0, 1), (0,)])])
def test_a_dead_worker_is_a_failure_at_once_unless_the_gate_says_otherwise(
    recording_gate, second_try, runs
):
    gate = recording_gate(grants=granting("a", second_try=second_try))
    devices = Devices(gate, hanging=frozenset({0}))
    assert devices.batch(2) == ["died", "1 on a"]
    assert [places for _, places in devices.runs] == runs


def test_what_needs_no_device_is_kept_with_the_rest(recording_gate):
    devices = Devices(recording_gate(grants=granting("a")))
    assert devices.batch(2, {0: "no code"}) == ["no code", "1 on a"]
    assert devices.runs == [("a", (1,))]


def test_a_batch_that_needs_no_device_asks_for_none(recording_gate):
    gate, kept = recording_gate(), []
    device = BatchDevice(
        run=None, died=None, lost=None, keep=lambda *kept_now: kept.append(kept_now)
    )
    assert measure_batch(gate, NEED, 1, device, {0: "no code"}) == ["no code"]
    assert kept == [([0], ["no code"])]
    assert not gate.events


def test_where_the_only_device_is_gone_what_was_measured_is_kept(recording_gate):
    devices, kept = Devices(recording_gate(grants=granting("a")), ends={"a": 2}), []

    def lost(_granted):
        raise TuningError("the tracker has no board any more")

    device = BatchDevice(
        run=devices.run,
        died=lambda result: result == "died",
        lost=lost,
        keep=lambda *kept_now: kept.append(kept_now),
    )
    with pytest.raises(TuningError, match="no board"):
        measure_batch(devices.gate, NEED, 5, device, {4: "no code"})
    assert kept == [([0, 1, 2, 4], ["0 on a", "1 on a", "died", "no code"])]


def test_an_error_of_the_log_ends_it(recording_gate):
    devices = Devices(recording_gate(grants=granting("a")))

    def refuse(_places, _results):
        raise TuningError("no space")

    devices.keep = refuse
    with pytest.raises(TuningError, match="no space"):
        devices.batch(1)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9190:board", DeviceAddress(host="127.0.0.1", port=9190, key="board")),
        ("[::1]:9190:a:b", DeviceAddress(host="::1", port=9190, key="a:b")),
    ],
)
def test_addresses(text, address):
    assert DeviceAddress.granted(text) == address


@pytest.mark.parametrize("text", ["board", "127.0.0.1:9190", "::1:9190:board", "host:port:board"])
def test_what_is_no_address_is_named(text):
    with pytest.raises(OptionError, match="give host:port:key"):
        DeviceAddress.granted(text)


@pytest.mark.slow
def test_a_device_answers_until_it_is_lost(start_rpc_server):
    with start_rpc_server("answering") as device:
        address = DeviceAddress(host=device.host, port=device.port, key=device.key)
        assert device_answers(address)
        device.kill()
        assert not device_answers(address)
