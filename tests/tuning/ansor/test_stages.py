"""Ansor's search at a gate: the order of stages, and devices that are lost."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest
import tvm
from tvm.auto_scheduler import measure

from tests.tuning.ansor.test_backend import QUICK, TARGET, candidates, one_convolution
from tvm_ios.tuning.ansor.backend import AnsorBackend
from tvm_ios.tuning.options import TuningOptions

SLICE = ["build", "profile"]
pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("shared_processes")
def test_stages_come_in_order_and_none_overlap(recording_gate, tmp_path):
    """A round of eight candidates in slices of four, then one more that knows what is in the log.

    The gate itself refuses a stage within a stage.
    """
    log = tmp_path / "gated.json"
    gate = recording_gate()
    written = []
    tell = gate.tell
    gate.tell = lambda progress: (written.append(len(candidates(log))), tell(progress))
    AnsorBackend(gate=gate).tune(*one_convolution(), TARGET, log, TuningOptions(trials=8, **QUICK))
    assert gate.kinds == ["prepare", "prepare", "search", *SLICE, *SLICE, "update"]
    assert written == [4, 8]
    places = [gate.events.index(event) for event in ("tell 4 of 8", "tell 8 of 8")]
    assert [gate.events[place - 1 : place + 2 : 2] for place in places] == [
        ["begin profile", "end profile"]
    ] * 2
    again = recording_gate()
    AnsorBackend(gate=again).tune(
        *one_convolution(), TARGET, log, TuningOptions(trials=10, **QUICK)
    )
    assert again.kinds == ["prepare", "update", "prepare", "search", *SLICE, "update"]
    assert len(set(candidates(log))) == len(candidates(log)) == 10


@pytest.mark.usefixtures("shared_processes")
def test_waiting_for_others_costs_no_trials(busy_gate, tmp_path):
    options = TuningOptions(trials=8, time_budget_s=40_000.0, **QUICK)
    log = tmp_path / "waited.json"
    outcome = AnsorBackend(gate=busy_gate).tune(*one_convolution(), TARGET, log, options)
    assert outcome.trials == 8
    assert not any("time budget" in note for note in outcome.notes)


@pytest.mark.usefixtures("shared_processes")
@pytest.mark.parametrize(("losing", "failed"), [pytest.param(1, 0, marks=pytest.mark.full), (2, 1)])
def test_a_lost_devices_batch_moves_unless_a_candidate_brought_two_down(
    losing, failed, recording_gate, grants_of, start_rpc_server, tmp_path
):
    log = tmp_path / "moved.json"
    with ExitStack() as started:
        servers = [started.enter_context(start_rpc_server(str(n))) for n in range(losing + 1)]
        gate = recording_gate(grants=grants_of(servers, losing))
        options = TuningOptions(trials=2, timeout_s=5, **QUICK)
        outcome = AnsorBackend(gate=gate).tune(*one_convolution(), TARGET, log, options)
    assert outcome.tasks[0].failed == failed
    assert outcome.trials == len(set(candidates(log))) == 2
    profiles = ["profile"] * (losing + 1)
    assert gate.kinds == ["prepare", "prepare", "search", "build", *profiles, "update"]
    assert gate.events.count("lost") == losing


@pytest.mark.usefixtures("planted_folder")
def test_a_search_leaves_tvm_as_it_was_and_imports_nothing_from_the_working_directory(
    recording_gate, tmp_path
):
    before, log = dict(os.environ), tmp_path / "safe.json"
    options = TuningOptions(trials=1, **QUICK)
    AnsorBackend(gate=recording_gate()).tune(*one_convolution(), TARGET, log, options)
    assert len(candidates(log)) == 1
    assert dict(os.environ) == before
    build = tvm.get_global_func("auto_scheduler.local_builder.build")
    run = tvm.get_global_func("auto_scheduler.local_runner.run")
    assert len(build([], 1, 1, measure.BuildFunc.name, 0)) == len(run([], [], 1)) == 0
