"""The GPU evaluation: its parts on the CPU, and all of it under a stand-in for CUDA.

The stand-in computes nothing, so outputs are proved by the tests of ``reference`` and ``prove``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.places import LAB, ROOT

FAKE_NVCC = """#!/bin/sh
# Nobody reads device code here.
case "$1" in --version) echo "release 12.0"; exit 0;; esac
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && { printf none > "$2"; exit 0; }
  shift
done
exit 1
"""


@dataclass(frozen=True)
class GpuScript:
    """Runs ``lab/gpu.py`` where CUDA and nvcc are stood in for."""

    environment: dict[str, str]
    folder: Path

    def command(self, *arguments):
        script = str(LAB / "gpu.py")
        common = ("--output", str(self.folder), "--quick", "--no-proof", "--torch-python", "none")
        return [sys.executable, script, *common, "--batch-sizes", "1", *arguments]

    def __call__(self, *arguments):
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env=self.environment,
        )

    def start(self, *arguments):
        return subprocess.Popen(
            self.command(*arguments), stdout=subprocess.DEVNULL, env=self.environment
        )


@pytest.fixture
def script(cuda_stand_in_library, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    nvcc = programs / "nvcc"
    nvcc.write_text(FAKE_NVCC)
    nvcc.chmod(0o755)
    environment = os.environ | {
        "LD_PRELOAD": cuda_stand_in_library,
        "CUDA_STAND_IN_LOG": str(tmp_path / "calls"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    return GpuScript(environment, tmp_path / "gpu")


def _steps_of(folder):
    """Status by step."""
    records = [json.loads(path.read_text()) for path in (folder / "steps").glob("*.json")]
    return {record["step"]: record["status"] for record in records}


def _running(folder):
    """Processes that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(words)
    return found


RECORD = {
    "input": [
        "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32",
        "conv2d_nchw.cuda",
        [
            ["TENSOR", [1, 24, 8, 8], "float32"],
            ["TENSOR", [24, 24, 1, 1], "float32"],
            *([1, 1], [0, 0, 0, 0], [1, 1], "float32"),
        ],
        {},
    ],
    "config": {
        "index": 0,
        "code_hash": None,
        "entity": [
            ["tile_f", "sp", [-1, 1, 3, 1]],
            ["tile_y", "sp", [-1, 4, 1, 1]],
            ["tile_x", "sp", [-1, 1, 2, 4]],
            ["tile_rc", "sp", [-1, 3]],
            ["tile_ry", "sp", [-1, 1]],
            ["tile_rx", "sp", [-1, 1]],
            ["auto_unroll_max_step", "ot", 0],
            ["unroll_explicit", "ot", 1],
        ],
    },
    "result": [[1e-5], 0, 0.5, 1700000000.0],
    "version": 0.2,
    "tvm_version": "0.17.dev0",
}


@pytest.fixture
def cudnn(script, tmp_path):
    """A stand-in for cuDNN, where a wheel would have it."""
    from tvm_ios.support.c_compiler import compile_shared

    source = ROOT / "tests" / "runtime" / "native" / "cudnn_stand_in.c"
    library = tmp_path / "wheel" / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"
    library.parent.mkdir(parents=True)
    library.symlink_to(compile_shared(source, ("-Wl,-soname,libcudnn.so.9",)))
    script.environment["PYTHONPATH"] = str(tmp_path / "wheel")


@pytest.mark.full
@pytest.mark.slow(60)
@pytest.mark.usefixtures("cudnn")
def test_a_call_that_was_killed_or_ran_out_of_time_is_taken_up_again(script, tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    (records / "nasnet_small.autotvm.log").write_text(json.dumps(RECORD) + "\n")
    what = ("--networks", "nasnet_small", "--records", str(records))
    first = script(*what, "--budget-s", "7")
    assert first.returncode == 3, first.stderr
    assert "# GPU evaluation" in first.stdout
    assert "call again with the same --output" in first.stdout
    assert "done" not in _steps_of(script.folder).values()

    process = script.start(*what)
    searched = script.folder / "steps" / "nasnet_small_bs1.search.untuned.json"
    while not searched.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while _running(script.folder):
        time.sleep(0.05)
    before = searched.read_bytes()

    last = script(*what)
    assert last.returncode == 0, last.stdout + last.stderr
    assert searched.read_bytes() == before
    assert "All is done that can be." in last.stdout
    assert (script.folder / "README.md").read_text() in last.stdout
    steps = _steps_of(script.folder)
    assert set(steps.values()) == {"done"}
    assert "| nasnet_small |     1 |   cudnn |" in last.stdout
    record = BenchmarkRecord.from_json(
        (script.folder / "results" / "nasnet_small_bs1.untuned+cudnn+tuned.json").read_text()
    )
    for kernels in ("untuned", "tuned"):
        for who in ("sequential", "greedy", "IOS-merge", "IOS-concurrent", "IOS-both"):
            for way in ("streams", "graph"):
                assert f"{kernels} {who}, {way}" in record.comparison.names
        trace = script.folder / "traces" / f"nasnet_small_bs1.{kernels}.json"
        assert json.loads(trace.read_text())["traceEvents"]
        assert (script.folder / "pictures" / f"nasnet_small_bs1.{kernels}.png").exists()
    assert "TVM" in record.comparison.names
    assert record.machine["GPU"] == "Stand-in"

    other = script(*what, "--streams", "2")
    assert other.returncode == 2
    assert other.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "begun with streams=8" in other.stderr


@pytest.mark.full
@pytest.mark.slow(30)
@pytest.mark.usefixtures("cudnn")
def test_a_step_that_fails_is_told_and_the_rest_goes_on(script):
    folder = script.folder
    (folder / "schedules" / "randwire_small_bs1.cudnn.greedy.json").mkdir(parents=True)
    done = script("--networks", "randwire_small", "--tune-s", "0")
    assert done.returncode == 0, done.stderr
    steps = _steps_of(folder)
    assert steps["randwire_small_bs1.search.cudnn"] == "failed"
    assert "IsADirectoryError" in done.stdout
    text = (folder / "steps" / "randwire_small_bs1.search.cudnn.error.txt").read_text()
    assert "Traceback" in text
    assert "cannot be done without randwire_small_bs1.search.cudnn" in done.stdout
    assert "randwire_small_bs1.lower.cudnn" not in steps
    assert steps["randwire_small_bs1.lower.untuned"] == "done"
    assert steps["randwire_small_bs1.measure.untuned+cudnn"] == "done"
    assert "| randwire_small |     1 | untuned |" in done.stdout


def test_without_cudnn_its_steps_are_skipped(tmp_path, monkeypatch):
    from tvm_ios.runtime.libraries.cudnn import library
    from tvm_ios_lab.gpu.agenda import Case, Kernels
    from tvm_ios_lab.gpu.machine import Machine
    from tvm_ios_lab.gpu.settings import Settings
    from tvm_ios_lab.gpu.workplace import SkippedError, Workplace

    library.load_cudnn.cache_clear()
    monkeypatch.setattr(library, "cudnn_libraries", lambda: ["libnone.so"])
    Machine(target="cuda -arch=sm_90", device="one", facts={}, versions={}).write(tmp_path)
    place = Workplace(tmp_path, Settings(quick=True), 0.0)
    with pytest.raises(SkippedError, match="libnone.so"):
        place.built(Case(network="nasnet_small"), Kernels.CUDNN).__enter__()


@pytest.mark.gpu
@pytest.mark.slow
def test_outputs_are_proved_on_a_gpu(tmp_path):
    import tvm

    if not tvm.cuda().exist:
        pytest.skip("no NVIDIA GPU on this machine")
    script = [sys.executable, str(LAB / "gpu.py"), "--output", str(tmp_path)]
    what = ("--networks", "nasnet_small", "--batch-sizes", "1", "--quick", "--tune-s", "20")
    done = subprocess.run([*script, *what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(
        (tmp_path / "steps" / "nasnet_small_bs1.outputs.untuned+cudnn.json").read_text()
    )
    assert outcome["data"]["wrong"] == []
    assert outcome["data"]["unequal"] == []
    assert "failed" not in _steps_of(tmp_path).values()


def test_without_a_gpu_there_is_one_line(run_python, tmp_path):
    done = run_python(
        str(LAB / "gpu.py"),
        "--output",
        str(tmp_path / "gpu"),
        CUDA_VISIBLE_DEVICES="-1",
    )
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: no ")
    assert "nvidia-smi" in line or "install NVIDIA's driver" in line
    assert done.stdout == ""


def test_a_toolkit_that_path_forgets_is_found(monkeypatch, tmp_path):
    from tvm_ios_lab.gpu.jobs import child_environment

    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(FAKE_NVCC)
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    found = child_environment({"LANG": "C"})
    assert found["PATH"] == f"{tmp_path}{os.pathsep}{nvcc.parent}"
    assert found["LANG"] == "C"
    monkeypatch.setenv("PATH", str(nvcc.parent))
    assert child_environment({})["PATH"] == str(nvcc.parent)


KERNEL = """extern "C" __global__ void k(float* __restrict__ a) {
  a[((int)blockIdx.x) * 64 + ((int)threadIdx.x)] += 1.0f;
}"""


def test_without_nvcc_device_code_comes_from_nvrtc(monkeypatch, tmp_path):
    import tvm

    from tvm_ios.errors import HostError
    from tvm_ios_lab.gpu import device_code

    monkeypatch.setenv("PATH", str(tmp_path))
    if device_code.find_nvrtc() is None:
        pytest.skip("no wheel with NVRTC on this machine")
    assert device_code.compiler_text().startswith("NVRTC 1")
    target = tvm.target.Target("cuda -arch=sm_90")
    callback = "tvm_callback_cuda_compile"
    before = tvm.get_global_func(callback)
    with device_code.kept_device_code(tmp_path / "code"):
        made = tvm.get_global_func(callback)(KERNEL, target)
        with pytest.raises(HostError, match="does not compile device code for sm_90"):
            tvm.get_global_func(callback)("none", target)
    (kept,) = (tmp_path / "code").iterdir()
    assert kept.read_bytes() == bytes(made)
    assert kept.read_bytes().startswith(b"\x7fELF")
    assert tvm.get_global_func(callback).handle.value == before.handle.value
    monkeypatch.setattr(device_code, "find_nvrtc", lambda: None)
    with pytest.raises(HostError, match="nvcc was not found, nor NVRTC"):
        device_code.compiler_text()


def test_the_agenda_is_in_order_and_ends_with_what_needs_tuning():
    from tvm_ios_lab.gpu.agenda import Kernels, Work
    from tvm_ios_lab.gpu.settings import Settings

    settings = Settings(torch_python="python3")
    steps = settings.steps
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    for number, step in enumerate(steps):
        assert set(step.needs) <= set(names[:number])
        assert set(step.after) <= set(names[:number])
    tuned = [number for number, step in enumerate(steps) if Kernels.TUNED in step.kernels]
    assert tuned == list(range(tuned[0], len(steps)))
    measures = [step for step in steps if step.work is Work.MEASURE]
    assert len(measures) == 10 + 6  # batches are not tuned
    without = Settings(tune_s=0.0, proof=False)
    assert {step.work for step in without.steps} == {
        Work.BUILD,
        Work.SEARCH,
        Work.LOWER,
        Work.MEASURE,
    }


def test_what_was_lost_takes_with_it_what_needs_it(tmp_path):
    from tvm_ios_lab.gpu.ledger import Ledger, Outcome
    from tvm_ios_lab.gpu.settings import Settings
    from tvm_ios_lab.harness.ledger import Status

    steps = Settings(networks=("squeezenet",), batch_sizes=(1,), tune_s=0).steps
    ledger = Ledger(tmp_path)
    ledger.write(Outcome(step="squeezenet_bs1.build.cudnn", status=Status.SKIPPED, seconds=1.0))
    lost = ledger.lost(steps)
    assert lost["squeezenet_bs1.lower.cudnn"] == ["squeezenet_bs1.search.cudnn"]
    assert "squeezenet_bs1.measure.untuned+cudnn" not in lost
    ledger.write(Outcome(step="squeezenet_bs1.build.untuned", status=Status.FAILED, seconds=1.0))
    assert "squeezenet_bs1.measure.untuned+cudnn" in ledger.lost(steps)


def test_files_that_are_gone_are_made_again_for_what_is_not_finished(tmp_path):
    from tvm_ios_lab.gpu.agenda import Work
    from tvm_ios_lab.gpu.ledger import Ledger, Outcome
    from tvm_ios_lab.gpu.settings import Settings
    from tvm_ios_lab.harness.ledger import Status

    ledger = Ledger(tmp_path)
    networks = ("squeezenet", "nasnet_small")
    steps = Settings(networks=networks, batch_sizes=(1,), tune_s=0).steps
    for step in steps:
        if step.case.network == "squeezenet" or step.work is not Work.MEASURE:
            ledger.write(Outcome(step=step.name, status=Status.DONE, seconds=1.0))
    there = tmp_path / "exported" / "nasnet_small_bs1" / "cudnn"
    there.mkdir(parents=True)
    ledger.forget_gone(steps)
    assert [step.name for step in steps if not ledger.is_done(step.name)] == [
        "nasnet_small_bs1.reference",
        "nasnet_small_bs1.build.untuned",
        "nasnet_small_bs1.lower.untuned",
        "nasnet_small_bs1.measure.untuned+cudnn",
    ]


def test_who_was_not_exported_does_not_run(tmp_path):
    from tvm_ios_lab.gpu.agenda import Case, Kernels
    from tvm_ios_lab.gpu.contestants import entries
    from tvm_ios_lab.gpu.ledger import Ledger, Outcome
    from tvm_ios_lab.gpu.settings import Settings
    from tvm_ios_lab.gpu.workplace import Workplace
    from tvm_ios_lab.harness.ledger import Status

    found = {"sequential": 9, "sequential, TVM's kernels": 9, "IOS-both": 7}
    lowered = Outcome(
        step="squeezenet_bs1.lower.untuned",
        status=Status.DONE,
        seconds=1.0,
        data={"launches": found},
    )
    Ledger(tmp_path).write(lowered)
    place = Workplace(tmp_path, Settings(quick=True), 0.0)
    ours = entries(place, Case(network="squeezenet"), (Kernels.UNTUNED, Kernels.CUDNN))
    assert [(each.kernels, each.who) for each in ours] == [
        (Kernels.UNTUNED, "sequential"),
        (Kernels.UNTUNED, "IOS-both"),
    ]


def test_steps_are_expected_to_take_what_the_last_ones_took(tmp_path):
    from tvm_ios_lab.gpu.evaluation import Forecast
    from tvm_ios_lab.gpu.ledger import Ledger, Outcome
    from tvm_ios_lab.gpu.settings import Settings
    from tvm_ios_lab.harness.ledger import Status

    steps = Settings(networks=("squeezenet", "inception_v3"), batch_sizes=(1, 16)).steps
    by_name = {step.name: step for step in steps}
    ledger = Ledger(tmp_path)
    forecast = Forecast(ledger, steps)
    large = by_name["inception_v3_bs16.build.untuned"]
    assert forecast.expected_s(large) == large.expected_s
    ledger.write(Outcome(step="squeezenet_bs1.build.untuned", status=Status.DONE, seconds=7.0))
    assert forecast.expected_s(large) == 7.0
    ledger.write(Outcome(step="inception_v3_bs1.build.untuned", status=Status.DONE, seconds=50.0))
    assert forecast.expected_s(large) == 50.0
    ledger.write(Outcome(step=large.name, status=Status.CUT, seconds=80.0))
    assert forecast.expected_s(large) == 80.0


class FakeJobs:
    """Steps that run until they are told to end."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.names = []

    def __call__(self, name, folder, *, left_s, threads):
        self.names.append(name)
        return FakeJob(self, name)

    def end(self, *names):
        from tvm_ios_lab.gpu.ledger import Outcome
        from tvm_ios_lab.harness.ledger import Status

        for name in names:
            self.ledger.write(Outcome(step=name, status=Status.DONE, seconds=20.0))


class FakeJob:
    seconds = 10.0

    def __init__(self, jobs, name):
        self.jobs, self.name = jobs, name

    def ended(self):
        return self.jobs.ledger.outcome(self.name)

    def kill(self):
        pass


def test_what_is_timed_for_the_results_has_the_machine_to_itself(tmp_path, monkeypatch):
    from tvm_ios_lab.gpu import evaluation
    from tvm_ios_lab.gpu.ledger import Ledger
    from tvm_ios_lab.gpu.settings import Settings

    steps = Settings(
        networks=("squeezenet", "inception_v3"), batch_sizes=(1,), tune_s=0, proof=False
    ).steps
    jobs = FakeJobs(Ledger(tmp_path))
    monkeypatch.setattr(evaluation, "Job", jobs)
    run = evaluation._Run(steps, tmp_path, 1000.0, lambda text: None)
    run.cores = 16
    assert run.look()
    builds = [
        f"{n}_bs1.build.{k}" for n in ("squeezenet", "inception_v3") for k in ("untuned", "cudnn")
    ]
    assert jobs.names == builds  # side by side
    jobs.end(*builds)
    run.look()
    assert jobs.names[4:] == ["squeezenet_bs1.search.untuned"]  # one at a time on the GPU
    jobs.end("squeezenet_bs1.search.untuned")
    run.look()
    assert jobs.names[5:] == ["squeezenet_bs1.lower.untuned", "squeezenet_bs1.search.cudnn"]
    jobs.end("squeezenet_bs1.search.cudnn", "squeezenet_bs1.lower.untuned")
    run.look()
    assert jobs.names[7:] == ["squeezenet_bs1.lower.cudnn", "inception_v3_bs1.search.untuned"]
    jobs.end("squeezenet_bs1.lower.cudnn")
    run.look()
    assert len(jobs.names) == 9  # the measuring waits, and nothing else begins
    jobs.end("inception_v3_bs1.search.untuned")
    run.look()
    assert jobs.names[9:] == ["squeezenet_bs1.measure.untuned+cudnn"]
    run.look()
    assert len(jobs.names) == 10
    jobs.end("squeezenet_bs1.measure.untuned+cudnn")
    run.look()
    assert jobs.names[10:] == ["inception_v3_bs1.lower.untuned", "inception_v3_bs1.search.cudnn"]


def test_there_are_fewer_rounds_of_what_takes_long():
    from tvm_ios.measure.compare import CompareOptions
    from tvm_ios_lab.gpu.compare_steps import _compared

    options = CompareOptions(rounds=20, min_repeat_ms=5.0)

    def rounds(run_s, left_s):
        notes: list[str] = []
        runs = {who: lambda number: round(number * run_s * 1e9) for who in ("one", "other")}
        return len(_compared(runs, options, notes, left_s).rounds), notes

    assert rounds(0.001, 60.0) == (20, [])
    assert rounds(0.25, 15.0) == (10, ["10 rounds in place of 20: one takes 1.0 s"])
    assert rounds(2.5, 15.0)[0] == 6


def test_tuning_is_not_asked_for_what_records_were_given_of(tmp_path):
    from tvm_ios_lab.gpu.agenda import Case
    from tvm_ios_lab.gpu.settings import Settings

    (tmp_path / "inception_v3.autotvm.log").write_text("")
    settings = Settings(records=str(tmp_path), tune_s=0.0)
    assert settings.is_tuned(Case(network="inception_v3", batch_size=16))
    assert not settings.is_tuned(Case(network="squeezenet"))


def _every_operator():
    """Odd windows, strides, paddings, groups: a network in Relay and its weights."""
    import tvm
    from tvm import relay

    random, params = np.random.default_rng(3), {}

    def convolution(data, shape, **options):
        names = f"w{len(params)}", f"b{len(params)}"
        for name, extents in zip(names, (shape, shape[:1]), strict=True):
            params[name] = tvm.nd.array(random.standard_normal(extents).astype("float32"))
        weight, bias = (relay.var(name, shape=params[name].shape) for name in names)
        call = relay.nn.conv2d(data, weight, channels=shape[0], kernel_size=shape[2:], **options)
        return relay.nn.bias_add(call, bias)

    image = relay.var("image", shape=(7, 4, 11, 9))
    wide = relay.nn.relu(convolution(image, (6, 4, 1, 7), padding=(0, 3)))
    grouped = convolution(wide, (8, 3, 3, 2), groups=2, strides=(2, 1), padding=(1, 0))
    each = convolution(wide, (6, 1, 3, 2), groups=6, strides=(2, 1), padding=(1, 0))
    joined = relay.concatenate([grouped, each], axis=1)
    kwargs = {"pool_size": (3, 2), "strides": (2, 1), "padding": (1, 0)}
    largest = relay.nn.max_pool2d(joined, **kwargs)
    average = relay.nn.avg_pool2d(joined, count_include_pad=True, **kwargs)
    result = relay.nn.global_avg_pool2d(relay.add(largest, average))
    function = relay.Function([image, *relay.analysis.free_vars(result)[1:]], result)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function)), params


@pytest.mark.slow
def test_the_reference_is_what_tvm_computes_on_the_cpu():
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    from tvm_ios_lab.gpu.compare_steps import prove
    from tvm_ios_lab.gpu.reference import compute, outweighing_images, repeated
    from tvm_ios_lab.peers.describe import describe

    module, params = _every_operator()
    described = describe(module, name="every", batch_size=7)
    weights = {key: value.numpy() for key, value in params.items()}
    images = outweighing_images(lambda image: compute(described, weights, image), described)
    assert len(images) == 5
    reference = repeated(compute(described, weights, images), 7)
    with tvm.transform.PassContext(opt_level=0):
        built = relay.build(module, target="llvm -opt-level=0", params=params)
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    executor.run(**{described.input: repeated(images, 7)})
    output = executor.get_output(0).numpy()
    found = prove({"TVM": output, "mixed up": output[::-1]}, reference)
    assert found["errors"]["TVM"] < 1e-5
    assert found["wrong"] == ["mixed up"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nasnet_small", "randwire_small"])
def test_an_image_outweighs_the_biases(name):
    from tvm_ios_lab.gpu.agenda import Case
    from tvm_ios_lab.gpu.networks import network
    from tvm_ios_lab.gpu.reference import compute, outweighing_images
    from tvm_ios_lab.peers.describe import describe

    module, params = network(Case(network=name), quick=True)
    described = describe(module, name=name)
    weights = {key: value.numpy() for key, value in params.items()}
    image = outweighing_images(lambda data: compute(described, weights, data), described)
    alone = compute(described, weights, np.zeros_like(image))
    output = compute(described, weights, image)
    assert np.max(np.abs(output - alone)) >= 0.5 * np.max(np.abs(output))


def test_a_graph_must_have_the_bits_of_its_streams():
    from tvm_ios_lab.gpu.compare_steps import prove

    reference = np.linspace(-1, 1, 8).reshape(1, 8, 1, 1)
    output = reference.astype("float32")
    other = output.copy()
    other[0, 3] += 1e-6
    found = prove(
        {
            "untuned greedy, streams": output,
            "untuned greedy, graph": other,
            "cudnn greedy, streams": other,
            "cudnn greedy, graph": other,
        },
        reference,
    )
    assert found["unequal"] == ["untuned greedy, graph"]
    assert found["wrong"] == []
    assert found["largest_error"] == pytest.approx(1e-6, rel=0.1)
    shape = prove({"untuned greedy, streams": output[:, :4]}, reference)
    assert shape["wrong"] == ["untuned greedy, streams"]


FAKE_TORCH = """#!{python}
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "time":
        answer = {{"ns": 1000 * request["number"]}}
    elif request["mode"] == "torch.compile":
        answer = {{"failed": "RuntimeError: no compiler"}}
    elif request["mode"] == "torch CUDA graph":
        sys.exit(7)
    else:
        answer = {{"seconds": 1.0, "error": 1e-7}}
    print(json.dumps(answer), flush=True)
"""


def test_pytorch_answers_from_a_process_of_its_own(tmp_path):
    from tvm_ios_lab.gpu.torch_process import TorchProcess, python_with_torch
    from tvm_ios_lab.peers.errors import PeerError

    python = tmp_path / "python"
    python.write_text(FAKE_TORCH.format(python=sys.executable))
    python.chmod(0o755)
    with TorchProcess(str(python), tmp_path, tmp_path) as process:
        assert process.prepare("torch eager", 60)["error"] == 1e-7
        assert process.timed("torch eager")(5) == 5000
        with pytest.raises(PeerError, match="torch.compile: RuntimeError: no compiler"):
            process.prepare("torch.compile", 60)
        with pytest.raises(PeerError, match="ended with 7"):
            process.prepare("torch CUDA graph", 60)
    assert python_with_torch(("/nowhere/python",)) is None


def _record(network, run_ns, batch_size=1):
    rounds = tuple(
        CompareRound(run_ns=tuple(map(float, run_ns.values())), ping_pong_ns=0.0, slow=False)
        for _ in range(6)
    )
    comparison = Comparison(names=tuple(run_ns), rounds=rounds, confidence=0.95, notes=())
    return BenchmarkRecord(
        network=network,
        batch_size=batch_size,
        target="cuda -arch=sm_90",
        lanes=8,
        command="",
        machine=(),
        versions=(),
        taken_at="",
        comparison=comparison,
    )


def test_the_table_has_ratios_means_and_goals(tmp_path):
    from tvm_ios_lab.gpu.machine import Machine
    from tvm_ios_lab.gpu.results import goals, results
    from tvm_ios_lab.gpu.settings import MAIN_NETWORKS, Settings
    from tvm_ios_lab.gpu.table import report

    settings = Settings(networks=(*MAIN_NETWORKS, "nasnet_small"), batch_sizes=(1, 16))
    Machine(target="cuda -arch=sm_90", device="H", facts={"GPU": "H"}, versions={}).write(tmp_path)
    assert "Nothing is measured yet." in report(tmp_path, settings)
    (tmp_path / "results").mkdir()

    def write(network, sequential, batch_size=1):
        times = {"TVM": 900, "torch.compile max-autotune": 240}
        for kernels in ("untuned", "tuned"):
            for who, took in (("sequential", sequential), ("greedy", 240), ("IOS-both", 200)):
                times[f"{kernels} {who}, graph"] = took
        record = _record(network, times, batch_size)
        path = tmp_path / "results" / f"{network}_bs{batch_size}.untuned.json"
        path.write_text(record.to_json())

    for network, sequential in zip(MAIN_NETWORKS, (400, 400, 400, 190), strict=True):
        write(network, sequential)
    write("nasnet_small", 4000)
    write("inception_v3", 4000, batch_size=16)
    found = results(tmp_path, settings.cases)
    assert len(found) == 12
    lines = [goal.as_text() for goal in goals(found)]
    mean = (2.0**3 * 0.95) ** 0.25
    assert (
        f"met: untuned kernels, IOS-both over sequential, geomean of at least 1.5: {mean:.3f}"
        in (lines)
    )
    met = "met: tuned kernels, IOS-both over torch.compile max-autotune"
    assert any(line.startswith(met) for line in lines)
    (least,) = [line for line in lines if "no network under" in line and "untuned" in line]
    assert least.startswith("NOT MET")
    assert least.endswith("0.950, short by 0.050")
    assert sum(line.startswith("not measured: cudnn") for line in lines) == 3
    text = report(tmp_path, settings)
    assert "geomean of 4 of the four" in text
    assert "squeezenet_bs1.build.untuned: not begun" in text
    (tmp_path / "results" / "squeezenet_bs1.untuned.json").unlink()
    least = goals(results(tmp_path, settings.cases))[2]
    assert least.as_text().startswith("NOT MET")
    assert "3 of 4 networks" in least.as_text()


def test_results_of_another_gpu_are_refused(tmp_path):
    from tvm_ios.errors import HostError
    from tvm_ios_lab.gpu.machine import Machine

    Machine(target="cuda -arch=sm_90", device="one", facts={}, versions={}).write(tmp_path)
    with pytest.raises(HostError, match="has results of one, and this is another"):
        Machine(target="cuda -arch=sm_90", device="another", facts={}, versions={}).write(tmp_path)
