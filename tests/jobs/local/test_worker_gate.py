"""The gate of a worker, with the other side of its socket in the test."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

import pytest

from tvm_ios.jobs.core.commands import GrantLease
from tvm_ios.jobs.core.events import StageReleased, StageRequested
from tvm_ios.jobs.core.resources import Lease
from tvm_ios.jobs.local import worker_gate
from tvm_ios.jobs.local.worker_gate import FromWorker, ToWorker, WorkerGate
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stage_gate import StageNeed, clock_at_work

CORES = tuple(sorted(os.sched_getaffinity(0)))
NEED = StageNeed.to_profile(1, "conv")


@pytest.fixture
def line():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_waiting_is_counted_and_is_no_work(line, monkeypatch):
    ours, theirs = line
    ticks = iter([10.0, 15.0, 17.0, 20.0, 20.5, 22.0, 40.0])
    monkeypatch.setattr(worker_gate, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    gate = WorkerGate(theirs, job="net", cores=CORES)
    for epoch in (1, 2):
        lease = Lease(job="net", epoch=epoch, need=NEED, cores=CORES[:1])
        ours.sendall(to_json(ToWorker, GrantLease(lease)).encode() + b"\n")
        with gate.stage(NEED):
            pass
    assert gate.waited_s == 5.5
    told = [from_json(FromWorker, text, "") for text in ours.recv(1 << 16).decode().splitlines()]
    assert told == [
        StageRequested("net", NEED),
        StageReleased(job="net", epoch=1, seconds=2.0),
        StageRequested("net", NEED),
        StageReleased(job="net", epoch=2, seconds=1.5),
    ]
    monkeypatch.setattr("tvm_ios.support.stage_gate.time", SimpleNamespace(monotonic=lambda: 40.0))
    assert clock_at_work(gate)() == 34.5
