"""A daemon that serves over HTTP, asked by the verbs from a folder that is not its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import stat
import subprocess
import sys
import time

import pytest

from tests.jobs.local.runs import LONG_S, mock_order, processes_of
from tvm_ios.cli.main import main
from tvm_ios.jobs.http.client import DaemonUrl
from tvm_ios.jobs.service import SubmitJobs, Submitted
from tvm_ios.jobs.state_folder import StateFolder

pytestmark = pytest.mark.slow


class Server:
    """A daemon in a process of its own."""

    def __init__(self, cache, project_root):
        self.folder = StateFolder(cache / "jobs")
        environment = os.environ | {
            "PYTHONPATH": str(project_root),
            "TVM_IOS_CACHE_DIR": str(cache),
        }
        words = ["serve", "2", "first", "--http", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.jobs.local.serving", *words],
            cwd=project_root,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self.process.stdout.readline()
        self.url = re.match(r"listens at (http://127\.0\.0\.1:[0-9]+), token in ", said)[1]
        self.token = self.folder.token.read_text().strip()

    def ask(self, request):
        return DaemonUrl(self.url, self.token).ask(request)

    def verb(self, name, *words):
        where = ["--url", self.url, "--token-file", str(self.folder.token)]
        return main(["jobs", name, *map(str, words), *where])


@pytest.fixture(scope="module")
def server(tmp_path_factory, project_root):
    server = Server(tmp_path_factory.mktemp("cache"), project_root)
    yield server
    server.process.kill()
    server.process.communicate()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "elsewhere"))


def job(server, capsys, name):
    capsys.readouterr()
    assert server.verb("status", "--json") == 0
    (found,) = (job for job in json.loads(capsys.readouterr().out) if job["name"] == name)
    return found


def await_job(server, capsys, name, wanted):
    deadline = time.monotonic() + LONG_S
    while not wanted(job(server, capsys, name)):
        assert time.monotonic() < deadline, job(server, capsys, name)
        time.sleep(0.05)


def test_the_verbs_reach_a_daemon_elsewhere(server, capsys, tmp_path):
    await_job(server, capsys, "first", lambda job: job["state"] == "done")
    assert server.ask(SubmitJobs((mock_order("long", 500),))) == Submitted(("long",))
    await_job(server, capsys, "long", lambda job: job["trials"])
    assert server.verb("cancel", "long") == 0
    assert capsys.readouterr().out == "cancelled: long\n"
    await_job(server, capsys, "long", lambda job: job["state"] == "cancelled")
    assert server.verb("trace", tmp_path / "trace.json") == 0
    names = {
        e["args"].get("name")
        for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    }
    assert {"cpu0", "first", "long"} <= names
    (server.folder.jobs / "first/log.txt").write_text("what a worker said\n")
    capsys.readouterr()
    assert server.verb("logs", "first") == 0
    assert capsys.readouterr().out == "what a worker said\n"


def test_a_file_is_submitted(server, capsys, tmp_path):
    path = tmp_path / "jobs.toml"
    # Devices are those that the daemon has, whatever the file says.
    elsewhere = '[[device]]\nname = "elsewhere"\ncore = 0\n'
    path.write_text(elsewhere + '[[job]]\nmodel = "squeezenet"\nname = "filed"\n')
    assert server.verb("submit", path) == 0
    assert capsys.readouterr().out == "submitted: filed\n"
    assert server.verb("cancel", "filed") == 0
    await_job(server, capsys, "filed", lambda job: job["state"] == "cancelled")


@pytest.mark.parametrize("verb", ["logs", "cancel"])
def test_a_job_that_nobody_submitted_is_told_in_a_line(server, capsys, verb):
    assert server.verb(verb, "nobody") == 2
    assert "error: there is no job 'nobody'" in capsys.readouterr().err


def test_a_wrong_token_is_told_in_a_line(server, capsys, tmp_path):
    token = tmp_path / "token"
    token.write_text("not-the-token-of-it")
    words = ["jobs", "status", "--url", server.url, "--token-file", str(token)]
    token.chmod(0o644)
    assert main(words) == 2
    assert f"run chmod 600 {token}" in capsys.readouterr().err
    token.chmod(0o600)
    assert main(words) == 2
    assert "a token was given that is not mine" in capsys.readouterr().err
    token.write_text("short")
    assert main(words) == 2
    assert "holds 5 characters and no token" in capsys.readouterr().err


def test_only_the_owner_may_read_the_token(server):
    assert stat.S_IMODE(server.folder.token.stat().st_mode) == 0o600


def test_a_body_that_is_too_long_ends_with_the_answer(server):
    line = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=LONG_S)
    line.putrequest("POST", "/jobs")
    line.putheader("Authorization", f"Bearer {server.token}")
    line.putheader("Content-Length", str(1 << 40))
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 413
    line.close()


def test_a_port_that_is_taken_is_told_before_anything_starts(server, capsys, tmp_path):
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\nmodel = "squeezenet"\n')
    assert main(["jobs", "serve", str(path), "--http", server.url.removeprefix("http://")]) == 2
    assert "ddress already in use; give another port" in capsys.readouterr().err


def test_a_daemon_that_goes_takes_its_token_along(tmp_path, project_root):
    server = Server(tmp_path, project_root)
    server.process.terminate()
    assert server.process.wait(LONG_S) == 130
    server.process.communicate()
    assert not server.folder.token.exists()
    assert not processes_of(server.folder)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--http", "8642"], "is no HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "is no HOST:PORT"),
        (["--http", "0.0.0.0:0"], "can be reached from other machines"),
        (["--http", "[::]:0"], "can be reached from other machines"),
        (["--http", "127.0.0.1:0", "--token-file", "/nowhere/token"], "cannot read a token"),
        (["--http-anywhere"], "--http, which is missing"),
        (["--token-file", "token"], "--http, which is missing"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_line(capsys, tmp_path, given, reason):
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\nmodel = "squeezenet"\n')
    assert main(["jobs", "serve", str(path), *given]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert reason in said


def test_a_missing_server_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "tvm_ios.jobs.http.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\nmodel = "squeezenet"\n')
    assert main(["jobs", "serve", str(path), "--http", "127.0.0.1:0"]) == 2
    assert "needs uvicorn" in (said := capsys.readouterr().err)
    assert "pip install 'tvm-ios[http]'" in said


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--url", "127.0.0.1:8642"], "is no URL of a daemon"),
        (["--url", "http://127.0.0.1:x"], "is no URL of a daemon"),
        (["--url", "http://127.0.0.1:1"], "no daemon answers at http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(capsys, tmp_path, given, reason):
    token = tmp_path / "token"
    token.write_text("a-token-of-a-test")
    token.chmod(0o600)
    assert main(["jobs", "status", "--token-file", str(token), *given]) == 2
    assert reason in capsys.readouterr().err
