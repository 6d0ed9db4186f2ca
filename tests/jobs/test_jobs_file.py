"""Files of jobs: what they say, and one line for what they cannot say."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.core.resources import Device, DeviceKind, DeviceWish, Machine
from tvm_ios.jobs.device_tables import read_devices, usual_device
from tvm_ios.jobs.jobs_file import read_jobs_file, read_orders_file
from tvm_ios.jobs.scheduler_table import ExecutorName
from tvm_ios.jobs.tune_work import TuneWork

CORES = tuple(sorted(os.sched_getaffinity(0)))
JOB = '[[job]]\nmodel = "squeezenet"\n'


def read(tmp_path, text):
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    return read_jobs_file(path)


def test_a_model_is_enough(tmp_path):
    file = read(tmp_path, JOB)
    assert file.scheduler.policy is PolicyName.SLACK
    assert file.scheduler.executor is ExecutorName.LOCAL
    assert file.machine.cores == CORES
    (device,) = file.machine.devices
    assert device == Device(name="cpu0", kind=DeviceKind.CORE, core=CORES[-1])
    (order,) = file.orders
    assert (order.spec.name, order.spec.model, order.spec.device) == (
        "squeezenet",
        "squeezenet",
        "cpu0",
    )
    assert order.work == TuneWork()


def test_a_job_may_be_in_bfloat16(tmp_path):
    (order,) = read(tmp_path, f'{JOB}precision = {{dtype = "bfloat16"}}\n').orders
    assert order.work.config == {"precision": {"dtype": "bfloat16"}}
    with pytest.raises(JobError, match=r"precision is 'int8'"):
        read(tmp_path, f'{JOB}precision = {{dtype = "int8"}}\n')


def test_all_that_a_file_may_say(tmp_path):
    for name in ("net.json", "net.params"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "quick.toml").write_text('time_budget = 9\n[tuning]\nbackend = "autotvm"\n')
    file = read(
        tmp_path,
        f"""
[scheduler]
policy = "fifo"
executor = "local"
max_active = 2
max_wait_s = 5

[[device]]
name = "cpu0"
kind = "core"
core = {CORES[0]}

[[device]]
name = "board"
kind = "rpc"
rpc_tracker = "127.0.0.1:9190"
rpc_key = "pi"

[[job]]
name = "a"
model = "net.json"
params = "net.params"
config = "quick.toml"
device = "board"
sla_ms = 2.5

[[job]]
model = "inception_v3"
device = "cpu0"
lanes = 1
[job.tuning]
backend = "auto_scheduler"
trials = 100
[job.search]
max_group_size = 2
""",
    )
    assert file.scheduler.policy is PolicyName.FIFO
    assert (file.scheduler.limits.max_active, file.scheduler.limits.max_wait_s) == (2, 5)
    assert file.machine.devices[1].address == "127.0.0.1:9190:pi"
    a, inception = file.orders
    assert (a.spec.name, a.spec.model, a.spec.sla_ms) == ("a", str(tmp_path / "net.json"), 2.5)
    assert a.work == TuneWork(
        config={"time_budget": 9, "tuning": {"backend": "autotvm"}},
        params=str(tmp_path / "net.params"),
    )
    assert (a.spec.device, a.spec.key) == ("board", "pi")
    assert (inception.spec.name, inception.spec.trials) == ("inception_v3", 100)
    assert inception.work == TuneWork(
        config={
            "tuning": {"backend": "auto_scheduler", "trials": 100},
            "search": {"max_group_size": 2},
        },
        lanes=1,
    )


def test_an_effort_is_a_key_of_a_job(tmp_path):
    (order,) = read(tmp_path, JOB + 'effort = "quick"\n').orders
    assert order.work == TuneWork(config={"effort": "quick"})
    with pytest.raises(JobError, match="effort is 'fast'; choose from 'quick'"):
        read(tmp_path, JOB + 'effort = "fast"\n')


def test_shapes_of_an_onnx_model_are_keys_of_a_job(tmp_path):
    shapes = 'input_shapes = "x:[1,3,8,8]"\nbatch_size = 2\n'
    (order,) = read(tmp_path, JOB + shapes).orders
    assert order.work == TuneWork(input_shapes="x:[1,3,8,8]", batch_size=2)
    with pytest.raises(JobError, match="job 'squeezenet': --input-shapes has 'x'; give such as"):
        read(tmp_path, JOB + 'input_shapes = "x"\n')
    with pytest.raises(JobError, match="job 'squeezenet': batch_size is 0; give a whole number"):
        read(tmp_path, JOB + "batch_size = 0\n")


DEVICES = f"""
[[device]]
name = "a"
kind = "core"
core = {CORES[0]}

[[device]]
name = "b"
kind = "gpu"
"""


BOARDS = "".join(
    f"[[device]]\nname = '{name}'\nkind = 'rpc'\nrpc_tracker = 'h:1'\nrpc_key = '{name}'\n"
    for name in "xy"
)
RAY = "[scheduler]\nexecutor = 'ray'\n"


@pytest.mark.parametrize(
    ("target", "kind"), [("", DeviceKind.CORE), ("llvm", DeviceKind.CORE), ("cuda", DeviceKind.GPU)]
)
def test_a_job_without_a_device_takes_any_that_fits_its_target(tmp_path, target, kind):
    chosen = f"target = '{target}'\n" if target else ""
    (order,) = read(tmp_path, f"{DEVICES}\n{BOARDS}{JOB}{chosen}").orders
    assert (order.spec.device, order.spec.kind) == ("", kind)


def test_two_gpus_of_one_machine_are_refused(tmp_path):
    second = "[[device]]\nname = 'c'\nkind = 'gpu'\n"
    with pytest.raises(JobError, match=r"'b' and 'c' are both GPUs of this machine.* cuda\(0\)"):
        read(tmp_path, f"{DEVICES}\n{second}{BOARDS}{JOB}")
    rows = [{"name": name, "kind": "gpu", "node": name} for name in "xy"]
    assert len(read_devices(rows, on_nodes=True)) == 2
    with pytest.raises(JobError, match="GPUs of node 'x'"):
        read_devices([*rows, {"name": "z", "kind": "gpu", "node": "x"}], on_nodes=True)


ALIKE = "".join(
    f"[[device]]\nname = '{name}'\nkind = 'rpc'\nrpc_tracker = 'h:{port}'\nrpc_key = 'pi'\n"
    for port, name in enumerate("vw", 1)
)


@pytest.mark.parametrize(
    ("devices", "chosen", "wish"),
    [
        (ALIKE, "", DeviceWish(kind=DeviceKind.RPC, key="pi")),
        (ALIKE, "device = 'v'", DeviceWish("v", DeviceKind.RPC, "pi")),
        (DEVICES + ALIKE, "rpc_key = 'pi'", DeviceWish(kind=DeviceKind.RPC, key="pi")),
        (BOARDS + ALIKE, "rpc_key = 'x'", DeviceWish(kind=DeviceKind.RPC, key="x")),
        (DEVICES + ALIKE, "", DeviceWish(kind=DeviceKind.CORE)),
    ],
)
def test_boards_under_one_key_are_alike(tmp_path, devices, chosen, wish):
    file = read(tmp_path, f"{devices}\n{JOB}{chosen}\n")
    assert file.orders[0].spec.wish == wish
    takes = [device.name for device in file.machine.devices if wish.takes(device)]
    of_key = {"pi": ["v", "w"], "x": ["x"], "": ["a"]}
    assert takes == ([wish.name] if wish.name else of_key[wish.key])


def test_devices_of_nodes_are_kept_for_these(tmp_path):
    device = "[[device]]\nname = 'x'\nnode = 'far'\ncore = 4096\n"
    file = read(tmp_path, f"{RAY}ray_address = 'head:6379'\n{device}{JOB}lanes = 64\n")
    assert file.scheduler.executor is ExecutorName.RAY
    assert file.scheduler.ray_address == "head:6379"
    assert file.machine.devices == ()
    assert file.devices == (Device(name="x", kind=DeviceKind.CORE, core=4096, node="far"),)
    assert file.orders[0].spec.device == "x"
    (order,) = read(tmp_path, f"{RAY}{JOB}device = 'whatever joins'\n").orders
    assert order.spec.device == "whatever joins"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"there is no job; add \[\[job\]\] with model"),
        ("[[job]]", r"a \[\[job\]\] has the model None; give a network or a file"),
        ("job = 3", r"job is no list of tables; begin each with \[\[job\]\]"),
        ("[[job]", "cannot read the jobs in"),
        ("job = " + "9" * 4301, r"cannot read the jobs in .*jobs.toml: this is no TOML"),
        (JOB + "tuning" + ".a" * 40 + " = 1", "jobs.toml: this is nested more than 32 deep"),
        (JOB + "[scheduler]\npolicy = 'best'", "policy is 'best'; choose from .*\"slack\""),
        (
            JOB + "[scheduler]\nexecutor = 'moon'",
            'executor is \'moon\'; choose from "local", "ray"',
        ),
        (JOB + "[scheduler]\nmax_actve = 2", "no key 'max_actve', did you mean 'max_active'"),
        (JOB + "[scheduler]\nmax_active = 0", "max_active is 0"),
        (JOB + "[scheduler]\nmax_wait_s = nan", "max_wait_s is nan; give seconds of 0 or more"),
        (JOB + "[scheduler]\nmax_active = '2'", "max_active is '2'; give a whole number"),
        (JOB + "colour = 3", "job 'squeezenet': has no key 'colour'"),
        (JOB + "[job.tuning]\ntrails = 3", r"job 'squeezenet': \[tuning\] has no key 'trails'"),
        (JOB + "[job.tuning]\ntrials = -3", r"job 'squeezenet': \[tuning\] trials is -3"),
        (JOB + "device = 'gpu7'", "job 'squeezenet': there is no device 'gpu7'; there are cpu0"),
        (JOB + "sla_ms = -1", "job 'squeezenet': sla_ms is -1; give milliseconds above 0"),
        (JOB + "lanes = 4096", "job 'squeezenet': lanes is 4096; give 1 to"),
        (JOB + "config = 'none.toml'", "cannot read the configuration .*none.toml"),
        (JOB + "config = 'a.toml'\n[job.search]\n", "config is 'a.toml', and search stand beside"),
        (JOB + "name = '../up'", r"job name '../up': give at most 100 letters"),
        (JOB + JOB, "job 'squeezenet' is there 2 times; give each a name of its own"),
        ("[[job]]\nmodel = 'net.json'", "there is no model .*net.json; name a file"),
        (JOB + "params = 'net.params'", "there is no file of parameters .*net.params; name a file"),
        (JOB + "[[device]]\nkind = 'core'", r"a \[\[device\]\] has the name None"),
        (JOB + "[[device]]\nname = 'x'\nkind = 'tpu'", "device 'x': kind is 'tpu'; choose from"),
        (JOB + "[[device]]\nname = 'x'\nkind = 'core'", "device 'x' is a core: say which"),
        (JOB + "[[device]]\nname = 'x'\ncore = 4096", "device 'x' lies on core 4096"),
        (
            JOB + "[[device]]\nname = 'x'\ncore = 0\nescorted = false",
            "x': escorted is false",
        ),
        (JOB + "[[device]]\nname = 'x'\nkind = 'rpc'", 'a device of kind "rpc" has both'),
        (JOB + "rpc_key = 'pi'", "job 'squeezenet': no device has the rpc_key 'pi'; there are"),
        (JOB + "rpc_key = 'pi'\ndevice = 'cpu0'", "device is 'cpu0' and rpc_key 'pi'; keep one"),
        (BOARDS + JOB, r"job 'squeezenet': no device fits its target, .*; there are x \(rpc\), y"),
        (JOB + "target = 'cuda'", "no device fits its target 'cuda'; there are cpu0 .core.: name"),
        (
            JOB + "[[device]]\nname = 'x'\ncore = 0\nnode = 'n'",
            "device 'x': node is 'n'; with exec",
        ),
        (
            RAY + JOB + "[[device]]\nname = 'x'",
            "device 'x': node is ''; with executor = \"ray\" each",
        ),
        (JOB + "[scheduler]\nray_address = 'h:1'", "ray_address is 'h:1'; say executor = \"ray\""),
        (
            JOB + "[[device]]\nname='x'\nkind='rpc'\nrpc_tracker='host'\nrpc_key='k'",
            "'host:k'; give HOST:PORT",
        ),
    ],
)
def test_what_it_cannot_say_is_told_in_one_line(tmp_path, text, told):
    with pytest.raises(JobError, match=told) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert str(tmp_path / "jobs.toml") in message
    assert "\n" not in message


def test_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.params").write_text("")
    (order,) = read(Path(), JOB + 'params = "net.params"').orders
    assert order.work.params == str(tmp_path / "net.params")


@pytest.mark.parametrize(
    "given", ["", "[[device]]\nname = 'left'\nkind = 'core'\ncore = 0\nnode = 'node-a'\n"]
)
def test_what_is_submitted_to_a_cluster_is_what_it_serves(tmp_path, given):
    served = read(tmp_path, f"{RAY}{given}{JOB}lanes = 64\n")
    joined = (*served.devices, usual_device((0, 1), "node-b"))
    there = Machine(cores=(0, 1), devices=joined)
    assert read_orders_file(tmp_path / "jobs.toml", there) == served.orders


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(JobError, match=r"cannot read the jobs in .*jobs.toml.*docs/jobs.md"):
        read_jobs_file(tmp_path / "jobs.toml")


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "tvm_ios.jobs.ray.connection", raising=False)
    with pytest.raises(JobError, match=r'executor = "ray" needs Ray.*pip install .ray>='):
        import_module("tvm_ios.jobs.ray.connection")
