"""The verb of jobs: what a daemon is asked, with one that serves and after it has gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.jobs.runs import LONG_S, mock_order, processes_of
from tvm_ios.cli.main import main
from tvm_ios.jobs.daemon.service import SubmitJobs, Submitted
from tvm_ios.jobs.daemon.unix_socket import ask_daemon
from tvm_ios.jobs.local.agent import log_path
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios_lab.jobs.simulation.mock_work import measured_batches

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    # Longer than the address of a Unix socket may be.
    cache = tmp_path / ("long" * 25)
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(cache))
    return StateFolder()


@contextlib.contextmanager
def serving(project_root, *words):
    """A daemon in a process of its own."""
    command = [sys.executable, "-m", "tests.jobs.serving", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(project_root)}
    daemon = subprocess.Popen(
        command, cwd=project_root, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield daemon
    finally:
        daemon.kill()
        daemon.communicate()


def jobs_in(capsys):
    capsys.readouterr()
    assert main(["jobs", "status", "--json"]) == 0
    return {job["name"]: job for job in json.loads(capsys.readouterr().out)}


def await_jobs(capsys, folder, wanted):
    """Wait until all jobs are like this."""
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        if folder.socket.exists() and wanted(jobs_in(capsys)):
            return
        time.sleep(0.05)
    pytest.fail(str(jobs_in(capsys)))


def test_a_daemon_is_asked(folder, project_root, capsys, tmp_path):
    with serving(project_root, "serve", 2, "first") as daemon:
        await_jobs(capsys, folder, lambda jobs: jobs["first"]["trials"])
        answer = ask_daemon(folder, SubmitJobs((mock_order("second", 200),)))
        assert answer == Submitted(("second",))
        await_jobs(capsys, folder, lambda jobs: jobs["second"]["trials"])
        assert jobs_in(capsys)["second"]["state"] == "running"
        assert main(["jobs", "cancel", "second"]) == 0
        assert capsys.readouterr().out == "cancelled: second\n"
        await_jobs(capsys, folder, lambda jobs: jobs["second"]["state"] == "cancelled")
        assert jobs_in(capsys)["second"]["waits_for"] == ""
        assert main(["jobs", "cancel", "third"]) == 2
        assert "there is no job 'third'" in capsys.readouterr().err
        assert main(["jobs", "trace", str(tmp_path / "trace.json")]) == 0
        await_jobs(capsys, folder, lambda jobs: jobs["first"]["state"] == "done")
        daemon.terminate()
        assert daemon.wait(LONG_S) == 130
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["args"].get("name") for event in events if event["ph"] == "M"}
    assert {"cores", "devices", "cpu0", "first", "second"} <= names
    assert not processes_of(folder)
    assert not folder.socket.exists()

    # All of it is known when the daemon has gone.
    jobs = jobs_in(capsys)
    assert (jobs["first"]["state"], jobs["second"]["state"]) == ("done", "cancelled")
    assert main(["jobs", "status"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["first", "done", "128/128"]
    assert main(["jobs", "trace", str(tmp_path / "later.json")]) == 0
    assert main(["jobs", "logs", "first"]) == 0
    assert main(["jobs", "logs", "third"]) == 2
    assert "job 'third' has no log" in capsys.readouterr().err


@pytest.mark.parametrize(
    "sent", [pytest.param(signal.SIGINT, marks=pytest.mark.full), signal.SIGTERM, signal.SIGKILL]
)
def test_a_run_that_is_ended_goes_on(folder, project_root, capsys, sent):
    with serving(project_root, "run", 5, "a", "b") as run:
        await_jobs(capsys, folder, lambda jobs: jobs["a"]["trials"] and jobs["b"]["trials"])
        run.send_signal(sent)
        assert run.wait(LONG_S) == (-9 if sent is signal.SIGKILL else 130)
    if sent is not signal.SIGKILL:
        assert not processes_of(folder)
    assert {job["state"] for job in jobs_in(capsys).values()} == {"waiting"}
    with serving(project_root, "run", 5, "a", "b") as run:
        said, _ = run.communicate(timeout=LONG_S)
        assert run.returncode == 0
    assert said == "goes on with a, b\n"
    for name in "ab":
        batches = measured_batches(folder.jobs / name)
        assert set(batches) == {2, 6, 10, 14, 18}
        assert len(batches) <= 6, "more than the batch in flight was measured again"
    assert not processes_of(folder)


def test_a_job_is_cancelled_without_a_daemon(folder, project_root, capsys):
    with serving(project_root, "serve", 100, "a") as daemon:
        await_jobs(capsys, folder, lambda jobs: jobs["a"]["trials"])
        daemon.terminate()
        daemon.wait(LONG_S)
    assert main(["jobs", "cancel", "a"]) == 0
    assert jobs_in(capsys)["a"]["state"] == "cancelled"
    assert main(["jobs", "cancel", "b"]) == 2
    assert "there is no job 'b'; there are a" in capsys.readouterr().err


def test_two_runs_in_one_folder_are_refused(folder, project_root, capsys, tmp_path):
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\nmodel = "squeezenet"\n')
    with serving(project_root, "serve", 100, "a") as daemon:
        await_jobs(capsys, folder, lambda jobs: jobs["a"]["trials"])
        assert main(["jobs", "run", str(path)]) == 2
        told = capsys.readouterr().err
        assert f"a daemon with process id {daemon.pid} has the jobs in" in told
        assert "jobs submit" in told


def test_without_any_jobs_there_is_a_next_step(folder, capsys, tmp_path):
    assert main(["jobs", "status"]) == 2
    assert "there are no jobs in" in capsys.readouterr().err
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\nmodel = "squeezenet"\n')
    assert main(["jobs", "submit", str(path)]) == 2
    assert f"start one: tvm-ios jobs serve {path}" in capsys.readouterr().err


def test_who_reads_a_log_may_go_away(folder, project_root):
    log = log_path(folder.jobs / "a")
    log.parent.mkdir(parents=True)
    log.write_text("what a worker said\n" * 10_000)  # more than a pipe holds
    command = [sys.executable, "-m", "tvm_ios", "jobs", "logs", "a"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=project_root, stdout=pipe, stderr=pipe) as reading:
        reading.stdout.close()
        assert reading.stderr.read() == b""
        assert reading.wait() == 128 + signal.SIGPIPE
