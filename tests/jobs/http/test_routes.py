"""What is answered at which address, and to whom."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from starlette.testclient import TestClient

from tests.jobs.local.runs import MACHINE, mock_order
from tvm_ios.errors import JobError, UnknownJobError
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.http import routes
from tvm_ios.jobs.http.routes import job_routes
from tvm_ios.jobs.service import Request, SubmitJobs
from tvm_ios.support.json_nouns import to_json

TOKEN = "a-token-of-a-test"
JSON = {"Content-Type": "application/json"}
CANCELLED = JobStatus(name="net", state=JobState.CANCELLED)


@dataclass
class Host:
    """Has jobs, and runs none."""

    orders: list = field(default_factory=list)
    machine = MACHINE

    def submit(self, orders):
        fresh = [order for order in orders if order not in self.orders]
        if any(order.spec.device not in ("", "cpu0") for order in fresh):
            raise JobError("there is no such device")
        self.orders += fresh
        return tuple(order.spec.name for order in fresh)

    def cancel(self, name):
        if name not in [order.spec.name for order in self.orders]:
            raise UnknownJobError(f"there is no job {name!r}; submit it first")

    def status(self):
        return tuple(
            JobStatus(name=order.spec.name, state=JobState.WAITING) for order in self.orders
        )

    def spans(self):
        return ()


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def client(host, tmp_path):
    application = job_routes(host, TOKEN, tmp_path)
    return TestClient(application, headers={"Authorization": f"Bearer {TOKEN}"})


def test_only_health_needs_no_token(host, tmp_path):
    client = TestClient(job_routes(host, TOKEN, tmp_path))
    assert client.get("/health").json() == {"status": "ok"}
    for path in ("/jobs", "/jobs/net", "/jobs/net/logs", "/trace", "/elsewhere"):
        assert client.get(path).status_code == 401
    for given in (TOKEN, f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ", "Bearer \xe4"):
        refused = client.get("/jobs", headers={"Authorization": given.encode("latin-1")})
        assert refused.status_code == 401, given
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert "--token-file" in refused.json()["reason"]
    assert client.post("/jobs", content='[[job]]\nmodel = "squeezenet"').status_code == 401
    assert client.delete("/jobs/net").status_code == 401
    assert not host.orders


def test_jobs_come_as_toml_json_and_nouns(client, host):
    told = client.post("/jobs", content='[[job]]\nmodel = "squeezenet"\n[[device]]\nname = "x"')
    assert (told.status_code, told.json()) == (201, {"names": ["squeezenet"]})
    again = client.post("/jobs", content='[[job]]\nmodel = "squeezenet"')
    assert (again.status_code, again.json()) == (200, {"names": []})
    body = {"job": [{"model": "squeezenet", "name": "b", "sla_ms": 2.5}]}
    assert client.post("/jobs", json=body).json() == {"names": ["b"]}
    nouns = to_json(Request, SubmitJobs((mock_order("c"),)))
    assert client.post("/jobs", content=nouns, headers=JSON).json() == {"names": ["c"]}
    assert [order.spec.name for order in host.orders] == ["squeezenet", "b", "c"]
    assert (host.orders[1].spec.device, host.orders[1].spec.sla_ms) == ("cpu0", 2.5)
    assert host.orders[2] == mock_order("c")


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ("", "toml", "there is no job; add"),
        ("[[job", "toml", "the body is no TOML"),
        (b"\xff", "toml", "not text in UTF-8"),
        ("{", "json", "the body"),
        ("[]", "json", "expected an object"),
        ('{"job": [{"model": "squeezenet", "lanes": "many"}]}', "json", "lanes"),
        ('[[job]]\nmodel = "squeezenet"\nlane = 1', "toml", "lane"),
        ('[[job]]\nmodel = "nowhere.onnx"', "toml", "there is no model"),
        ('{"SubmitJobs": {"orders": [{"spec": {"name": "a"}}]}}', "json", "work"),
        ('{"SubmitJobs": {"orders": []}, "job": []}', "json", "SubmitJobs"),
    ],
)
def test_a_bad_job_is_refused_in_a_line(client, host, body, kind, reason):
    told = client.post("/jobs", content=body, headers={"Content-Type": f"application/{kind}"})
    assert told.status_code == 422
    (said,) = told.json().values()
    assert reason in said
    assert "\n" not in said
    assert not host.orders


def test_what_the_host_refuses_is_refused(client):
    order = mock_order("a")
    text = to_json(Request, SubmitJobs((order,))).replace('"device":""', '"device":"gpu9"')
    told = client.post("/jobs", content=text, headers=JSON)
    assert (told.status_code, told.json()) == (422, {"reason": "there is no such device"})


def test_a_body_has_a_bound(client, host, monkeypatch):
    monkeypatch.setattr(routes, "LARGEST_BODY", 100)
    body = '[[job]]\nmodel = "squeezenet"'
    assert client.post("/jobs", content=body + "#" * 100).status_code == 413
    pieces = iter([body.encode(), *[b"#"] * 200])
    assert client.post("/jobs", content=pieces).status_code == 413
    assert not host.orders
    assert client.post("/jobs", content=body).status_code == 201


def test_a_job_is_shown_and_cancelled(client, tmp_path):
    client.post("/jobs", content='[[job]]\nmodel = "squeezenet"')
    assert client.get("/jobs").json()["jobs"][0]["state"] == "waiting"
    assert client.get("/jobs/squeezenet").json()["name"] == "squeezenet"
    assert client.delete("/jobs/squeezenet").json() == {"name": "squeezenet"}
    assert client.get("/jobs/squeezenet/logs").text == ""
    (tmp_path / "squeezenet").mkdir()
    (tmp_path / "squeezenet/log.txt").write_bytes(b"said \xff\n")
    assert client.get("/jobs/squeezenet/logs").content == b"said \xff\n"
    assert client.get("/machine").json()["devices"][0]["name"] == "cpu0"
    trace = client.get("/trace").json()
    assert trace["spans"] == []
    assert trace["machine"]["devices"][0]["name"] == "cpu0"


@pytest.mark.parametrize("name", ["net", "..", "%2e%2e", "..%2f..%2fsecret", "a%00b"])
def test_what_does_not_exist_is_404(client, tmp_path, name):
    (tmp_path.parent / "log.txt").write_text("secret")
    for verb, path in (("GET", ""), ("DELETE", ""), ("GET", "/logs")):
        told = client.request(verb, f"/jobs/{name}{path}")
        assert told.status_code in {404, 405}
        assert json.loads(told.text)["reason"]
    assert client.get("/jobs/net").json()["reason"] == "there is no job 'net'; there are none"
    assert client.put("/jobs").status_code == 405
