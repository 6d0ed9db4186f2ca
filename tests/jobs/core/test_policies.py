from __future__ import annotations

import pytest

from tvm_ios.jobs.core.job_state import Remaining
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, DeviceWish, Machine
from tvm_ios.jobs.core.view import Candidate, View
from tvm_ios.support.stage_gate import StageKind, StageNeed


def candidate(job, kind=StageKind.PROFILE, *, left=1.0, asked=0.0, device=""):
    return Candidate(
        wish=DeviceWish(device),
        job=job,
        number=ord(job),
        need=StageNeed(kind=kind),
        asked_s=asked,
        left=Remaining(alone_s=left),
    )


def view(profiles=(), stages=(), starts=(), *, running=None, live=None, load=100.0):
    boards = tuple(Device(name=name, kind=DeviceKind.RPC) for name in ("near", "far"))
    return View(
        now_s=10.0,
        machine=Machine(cores=tuple(range(8)), devices=boards),
        profiles=profiles,
        stages=stages,
        starts=starts,
        running=running or {},
        live=live or {},
        load_s=load,
    )


def order(policy, seen):
    return "".join(proposal.job for proposal in policy_named(policy).choose(seen))


WAITING = (
    candidate("a", left=30, asked=3),
    candidate("b", left=10, asked=4),
    candidate("c", left=80, asked=2),
    candidate("d", left=75, asked=1),
)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PolicyName.FIFO, "dcab"),
        (PolicyName.SHORTEST, "badc"),
        (PolicyName.LONGEST, "cdab"),
        (PolicyName.SLACK, "cdba"),
    ],
)
def test_rank(policy, expected):
    assert order(policy, view(WAITING)) == expected


def test_with_much_to_do_nobody_is_critical():
    assert order(PolicyName.SLACK, view(WAITING, load=1000.0)) == "badc"


@pytest.mark.parametrize("policy", PolicyName)
def test_profiles_come_before_stages_and_workers_last(policy):
    seen = view((candidate("p"),), (candidate("s", StageKind.PROFILE),), (candidate("w"),))
    assert order(policy, seen) == "psw"


def test_in_lockstep_stages_of_one_kind_run():
    stages = (candidate("s", StageKind.SEARCH), candidate("b", StageKind.BUILD))
    profiles = (candidate("p"), candidate("q"))
    assert order(PolicyName.LOCKSTEP, view(profiles, stages)) == "pq"
    running = {StageKind.BUILD: 1, StageKind.PROFILE: 0}
    assert order(PolicyName.LOCKSTEP, view(profiles, stages, running=running)) == "b"


def test_sequential_runs_a_job_a_device_with_its_share_of_the_cores():
    starts = tuple(candidate(job) for job in "abc")
    assert order(PolicyName.SEQUENTIAL, view(starts=starts)) == "ab"
    assert order(PolicyName.SEQUENTIAL, view(starts=starts, live={"": 1})) == "a"
    (proposal,) = policy_named(PolicyName.SEQUENTIAL).choose(view(stages=(candidate("a"),)))
    assert proposal.most_cores == 4


def test_sequential_does_not_start_a_second_job_for_the_same_device():
    pins = {"a": "near", "b": "near", "c": "far"}
    starts = tuple(candidate(job, device=device) for job, device in pins.items())
    assert order(PolicyName.SEQUENTIAL, view(starts=starts)) == "ac"
    assert order(PolicyName.SEQUENTIAL, view(starts=starts, live={"near": 1})) == "c"
