"""Real tuning through the daemon: two networks on one core, killed on the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import tvm

import tvm_ios
from tests.jobs.runs import CORES, LONG_S, processes_of
from tests.jobs.tuned import TARGET, assert_all_measured_once, tuned_order
from tvm_ios.cli.main import main
from tvm_ios.driver.chain.run_folder import RunFolder
from tvm_ios.host.pinning import descendants
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.jobs.store import JobStore
from tvm_ios.support.stage_gate import StageKind

pytestmark = pytest.mark.slow
QUICK = f"""
target = "{TARGET}"
lanes = 1
[job.tuning]
backend = "autotvm"
trials = 2
repeat = 1
min_repeat_ms = 1
[job.search]
max_group_size = 1
[job.build]
pad_channels = false
libraries = []
[job.compare]
rounds = 6
"""


@pytest.fixture
def folder(fresh_cache, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    return StateFolder()


@pytest.fixture
def network(fork, tmp_path):
    mod, params = fork
    (tmp_path / "net.json").write_text(tvm.ir.save_json(mod))
    (tmp_path / "net.params").write_bytes(tvm.runtime.save_param_dict(params))
    return 'model = "net.json"\nparams = "net.params"\n'


def run_jobs(tmp_path, text):
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    return main(["jobs", "run", str(path)])


def test_two_networks_are_tuned_on_one_core(folder, network, tmp_path, capsys):
    status = run_jobs(
        tmp_path,
        f'[[job]]\nname = "whole"\n{network}{QUICK}'
        f'[[job]]\nname = "soon"\n{network}sla_ms = 1e6\n{QUICK}'
        '[[job]]\nname = "none"\nmodel = "no_such_network"\n',
    )
    told = capsys.readouterr()
    assert status == 1, told
    assert "tvm-ios: job none failed: there is no network and no file named" in told.err
    with JobStore(folder.database) as store:
        jobs = {job.order.spec.name: job for job in store.jobs()}
        spans = store.spans()
    assert jobs["whole"].state is jobs["soon"].state is JobState.DONE
    assert jobs["none"].state is JobState.FAILED
    assert {span.need.kind for span in spans} >= {
        StageKind.PREPARE,
        StageKind.BUILD,
        StageKind.PROFILE,
    }
    profiles = sorted((s.granted_s, s.ended_s) for s in spans if s.device)
    assert all(one[1] <= next_[0] for one, next_ in pairwise(profiles))
    reports = {}
    for name in ("whole", "soon"):
        run = RunFolder.find((folder.jobs / name / "run").resolve().name)
        reports[name] = run.report()
        assert reports[name].latency.median_ms == jobs[name].progress.best_ms
        assert reports[name].latency.notes[-1] == f"leased for it: device cpu0, cores {CORES[-1]}"
        assert reports[name].context.machine["cores"] == str(len(CORES))
        tvm_ios.load(run.library, lanes=1)
    assert jobs["whole"].progress.trials > jobs["soon"].progress.trials
    assert reports["soon"].service_level.is_met
    assert not processes_of(folder)

    # The same file has nothing left to do but what failed.
    capsys.readouterr()
    assert run_jobs(tmp_path, f'[[job]]\nname = "whole"\n{network}{QUICK}') == 0
    assert "done before: whole" in capsys.readouterr().err


def test_a_tuner_that_is_killed_goes_on_from_its_log(folder, network, tmp_path, capsys):
    killed = []

    def kill():
        """Kill the worker while it profiles a batch, once something is in the log."""
        log = folder.path.parent / "autotvm.log"
        deadline = time.monotonic() + LONG_S
        while time.monotonic() < deadline and not killed:
            time.sleep(0.005)
            if not (log.exists() and log.read_text().count("\n")):
                continue
            for process in processes_of(folder):
                command = Path(f"/proc/{process}/cmdline").read_text()
                if "tvm_ios.jobs.local.worker" in command:
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                    return

    killer = threading.Thread(target=kill)
    killer.start()
    status = run_jobs(tmp_path, f'[[job]]\nname = "whole"\n{network}{QUICK}')
    killer.join()
    told = capsys.readouterr()
    assert status == 0, told
    assert killed
    with JobStore(folder.database) as store:
        (job,) = store.jobs()
    assert (job.state, job.attempts) == (JobState.DONE, 2)
    log = (folder.path.parent / "autotvm.log").read_text()
    records = map(json.loads, log.splitlines())
    candidates = [json.dumps((each["input"], each["config"]["entity"])) for each in records]
    assert len(candidates) == len(set(candidates)), "a candidate in the log was measured again"
    assert len(candidates) == job.progress.trials
    assert not processes_of(folder)


def popen_workers(process):
    """TVM's workers below a process, those that build and those that measure, oldest first."""
    found = []
    for child in descendants(process):
        with suppress(OSError):
            if b"popen_worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return sorted(found)


@pytest.mark.full  # in make test they die in tests of tuners, and workers of real jobs here
def test_builders_and_runners_that_are_killed_cost_a_second_try_and_no_record(
    run_daemon, folder, fork, tmp_path
):
    killed = []

    async def kill_below(run, kind, seen):
        """Kill the latest worker that a stage has started; TVM starts tracker and server first."""
        process = await run.until_stage("job", kind)
        least = 1 + 2 * len(killed)
        while len(new := [w for w in popen_workers(process) if w not in seen]) < least:
            assert run.status("job").stage.startswith(kind.value)
            await asyncio.sleep(0.005)
        os.kill(new[-1], signal.SIGKILL)
        killed.append(new[-1])
        return popen_workers(process)

    async def act(run):
        run.daemon.submit([tuned_order(fork, tmp_path)])
        builders = await kill_below(run, StageKind.BUILD, ())
        while run.status("job").stage.startswith(StageKind.BUILD.value):
            builders = popen_workers(run.process("job"))
            await asyncio.sleep(0.005)
        await kill_below(run, StageKind.PROFILE, builders)
        await run.daemon.all_ended()
        assert run.status("job").state is JobState.DONE, run.status("job").reason
        assert run.status("job").attempt == 1

    run_daemon(act)
    assert len(killed) == 2
    assert_all_measured_once(folder.path.parent / "autotvm.log")
    assert not processes_of(folder)
