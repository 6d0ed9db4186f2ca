"""Exported models in C and C++: no Python, the same bits, and errors that say what to do."""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache, partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.onnx.cut_models import ENDS
from tests.relay_modules import quantised_images, weights_of_bytes
from tvm_ios import BuildOptions, TuneOptions
from tvm_ios.cli.main import main
from tvm_ios.compile.built_model import build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.shapes import CompiledShapes
from tvm_ios.driver.several import joined
from tvm_ios.host import host_target
from tvm_ios.host.onednn_files import ONEDNN_VARIABLE, find_onednn
from tvm_ios.plan.image import IMAGE_MAGIC
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule

PROJECT = Path(__file__).resolve().parents[3]
EXAMPLE = PROJECT / "examples" / "c" / "run_model.c"
CHECKS = Path(__file__).with_name("c_api_checks.c")
SHIM = PROJECT / "tests" / "runtime" / "native" / "onednn_shim.c"
TARGET = "llvm -mcpu=core-avx2 -opt-level=0"  # LLVM need not optimise what runs a few times

pytestmark = pytest.mark.slow(10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c_api")


def printed(*words):
    """What the command prints, as words of a shell."""
    out = StringIO()
    with redirect_stdout(out):
        assert main(list(words)) == 0
    return shlex.split(out.getvalue())


@pytest.fixture(scope="module")
def built(folder):
    """Compiles a C file with what ``tvm-ios c-api`` prints, once, without a warning."""

    @cache
    def build(source, *flags, compiler="cc"):
        program = folder / "-".join((Path(source).stem, compiler, *flags))
        words = [compiler, *flags, "-O2", "-Wall", "-Wextra", "-Werror", str(source)]
        done = subprocess.run(
            [*words, *printed("c-api"), "-o", str(program)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return program

    return build


def variables():
    return dict(each.split("=", 1) for each in printed("c-api", "--environment"))


def started(program, *words, without="", **others):
    environment = variables() | others
    environment.pop(without, None)
    # No variable of Python's, and no folder of it on the path.
    clean = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        [str(program), *map(str, words)],
        capture_output=True,
        text=True,
        env=clean,
        timeout=300,
        check=False,
    )


def two_ways(side):
    """Two convolutions of an image, joined, and their weights."""
    data = relay.var("data", shape=(1, 3, side, side))
    random, params, ways = np.random.default_rng(0), {}, []
    for size in (1, 3):
        name, shape = f"w{size}", (8, 3, size, size)
        params[name] = tvm.nd.array(random.uniform(-1, 1, shape).astype("float32"))
        window = {"kernel_size": (size, size), "padding": (size // 2, size // 2), "channels": 8}
        ways.append(relay.nn.conv2d(data, relay.var(name, shape=shape), **window))
    joined = relay.nn.relu(relay.concatenate(ways, axis=1))
    return tvm.IRModule.from_expr(relay.nn.global_avg_pool2d(joined)), params


@pytest.fixture(scope="module")
def model(folder):
    """A network with branches on two lanes, its input, and what Python computes."""
    compiled = tvm_ios.compile_schedule(*two_ways(16), TARGET, lanes=min(2, os.cpu_count() or 1))
    path = folder / "model.so"
    compiled.export_library(path)
    with tvm_ios.load(path) as executor:
        name = executor.plan.inputs[0].name
        shape = executor.get_input_info()[0][name]
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        executor.run(**{name: x})
        wanted = executor.get_output(0).numpy()
    x.tofile(folder / "x.bin")
    return path, folder / "x.bin", wanted


def test_the_example_computes_the_same_bits(built, model, folder):
    path, x, wanted = model
    program = built(EXAMPLE)
    words = (path, "--input", x, "--output", folder / "y.bin", "--repeat", 20)
    done = started(program, *words)
    assert done.returncode == 0, done.stderr
    assert "input 0 data float32[1, 3, 16, 16]" in done.stdout
    got = np.fromfile(folder / "y.bin", "float32").reshape(wanted.shape)
    assert np.array_equal(got, wanted)


def test_a_program_for_a_cpu_runs_without_a_library_of_cuda(built, model):
    program = built(EXAMPLE)
    clean = {"PATH": "/usr/bin:/bin"}
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=clean)
    assert "not found" not in listed.stdout
    stand_ins = [word for word in printed("c-api") if "/stand-ins/lib" in word]
    for line in listed.stdout.splitlines():
        name = line.split()[0]
        assert "cuda" not in name or any(path in line for path in stand_ins), line
    done = subprocess.run(
        [program, model[0]], capture_output=True, text=True, check=False, env=clean
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_models_side_by_side_threads_and_wrong_calls(built, model, folder):
    """The checks are in C, and name the line that does not hold."""
    path, x, _ = model
    network = two_ways(16)
    compiled = tvm_ios.compile_schedule(joined({"one": network, "two": network}), {}, TARGET)
    compiled.export_library(folder / "both.so")
    larger = two_ways(24)
    models = {
        f"data:[1,3,{side},{side}]": tvm_ios.compile_schedule(*each, TARGET)
        for side, each in ((16, network), (24, larger))
    }
    CompiledShapes(models=models).export_library(folder / "shapes.so")
    words = (path, x, folder / "both.so", folder / "shapes.so")
    done = started(built(CHECKS, "-pthread"), *words)
    assert (done.returncode, done.stdout) == (0, "all checks hold\n"), done.stdout + done.stderr


def test_the_header_is_one_of_cpp(built, folder, model):
    source = folder / "program.cpp"
    source.write_text(
        '#include "tvm_ios.h"\nint main(int, char** words) {\n'
        "  tvm_ios_model* model = tvm_ios_model_open(words[1], 1);\n"
        "  int status = model ? tvm_ios_model_run(model) : 9;\n"
        "  tvm_ios_model_close(model);\n  return status;\n}\n"
    )
    words = printed("c-api")
    api = next(word for word in words if word.endswith(".c"))
    unit = folder / "tvm_ios_model.o"
    include = next(word for word in words if word.startswith("-I"))
    subprocess.run(["cc", "-c", include, api, "-o", str(unit)], check=True)
    rest = [word for word in words if word != api]
    subprocess.run(["c++", str(source), str(unit), *rest, "-o", str(folder / "cpp")], check=True)
    assert started(folder / "cpp", model[0]).returncode == 0


def _truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _another_abi(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"tvm_ios_executor", b"tvm_ios_executoR"))


def _another_image(path, *, place=12):
    content = bytearray(path.read_bytes())
    begin = content.rindex(IMAGE_MAGIC)
    content[begin + place] += 1
    path.write_bytes(content)


def _without_image(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"tvm-ios image", b"tvm-ios imagE"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncated, "without a tvm-ios footer at the end"),
        (_another_abi, "exported by another version of tvm-ios"),
        (_another_image, "exported by another version of tvm-ios (image "),
        (_without_image, "no plan in the file: it was exported by another version of tvm-ios"),
        (partial(_another_image, place=99), "the plan is damaged: its "),
        (Path.unlink, "cannot be read: No such file or directory"),
    ],
    ids=["truncated", "other-version", "other-image", "older", "damaged", "missing"],
)
def test_files_that_do_not_fit_are_refused(built, model, tmp_path, damage, message):
    copy = tmp_path / "model.so"
    copy.write_bytes(model[0].read_bytes())
    damage(copy)
    done = started(built(EXAMPLE), copy)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_model_whose_rest_onnxruntime_runs_is_refused(built, tmp_path):
    mod, _ = tvm_ios.from_onnx(ENDS["places"], rest="onnxruntime")
    tvm_ios.compile_schedule(mod, target=TARGET, lanes=1).export_library(tmp_path / "model.so")
    done = started(built(EXAMPLE), tmp_path / "model.so")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "model.so: 1 of 3 nodes are run by onnxruntime" in line
    assert line.endswith("open it with tvm_ios.load in Python")


def images():
    """What oneDNN computes: in parts on two lanes, with steps and constants."""
    x = relay.var("data", shape=(1, 16, 12, 12))

    def weight(*shape):
        return relay.const(np.random.default_rng(1).uniform(-0.1, 0.1, shape).astype("float32"))

    wide = relay.nn.conv2d(x, weight(32, 16, 3, 3), padding=(1, 1), kernel_size=(3, 3), channels=32)
    wide = relay.clip(relay.nn.bias_add(wide, weight(32)), -0.5, 6.0)
    deep = relay.nn.conv2d(
        wide, weight(32, 1, 3, 3), padding=(1, 1), groups=32, kernel_size=(3, 3), channels=32
    )
    joined = relay.nn.conv2d(relay.nn.relu(deep), weight(32, 32, 1, 1), kernel_size=(1, 1)) + wide
    risen = relay.nn.conv2d_transpose(
        joined, weight(32, 8, 6, 6), channels=8, kernel_size=(6, 6), strides=(2, 2), padding=(2, 2)
    )
    pooled = relay.nn.max_pool2d(relay.nn.relu(risen), (2, 2), strides=(2, 2))
    flat = relay.nn.batch_flatten(pooled)
    scores = relay.nn.softmax(relay.nn.dense(flat, weight(24, 8 * 144)))
    return tvm.IRModule.from_expr(relay.Function([x], scores))


@pytest.fixture(scope="module")
def onednn_model(folder):
    """As ``model``, with calls of oneDNN."""
    options = TuneOptions(build=BuildOptions(libraries=("onednn",)))
    compiled = tvm_ios.compile_schedule(
        images(), None, host_target(), lanes=min(2, os.cpu_count() or 1), options=options
    )
    called = [launch.call for launch in compiled.plan.launches if launch.call is not None]
    assert len(called) >= 5
    path = folder / "onednn.so"
    compiled.export_library(path)
    with tvm_ios.load(path, any_processor_model=True) as executor:
        values = np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype("float32")
        executor.run(data=values)
        wanted = executor.get_output(0).numpy()
    assert 0 < wanted.min() < wanted.max() < 1
    values.tofile(folder / "values.bin")
    return path, folder / "values.bin", wanted


def test_onednn_computes_the_same_bits(built, onednn_model, folder):
    path, x, wanted = onednn_model
    words = (path, "--input", x, "--output", folder / "z.bin", "--repeat", 20)
    done = started(built(EXAMPLE), *words)
    assert done.returncode == 0, done.stderr
    got = np.fromfile(folder / "z.bin", "float32").reshape(wanted.shape)
    assert np.array_equal(got, wanted)
    done = started(built(CHECKS, "-pthread"), path, x)
    assert (done.returncode, done.stdout) == (0, "all checks hold\n"), done.stdout + done.stderr


def test_a_machine_without_onednn_is_refused(built, onednn_model):
    done = started(built(EXAMPLE), onednn_model[0], without=ONEDNN_VARIABLE)
    assert done.returncode == 1
    assert "oneDNN 3 computes operators of it, and there is none" in done.stderr


@pytest.fixture(scope="module")
def another(folder):
    """Variables that name a oneDNN which answers one question as ``onednn_shim.c`` says."""
    real = Path(variables()[ONEDNN_VARIABLE])
    linked = ["-Wl,--no-as-needed", str(real), f"-Wl,-rpath,{real.parent}"]

    def build(change):
        shim = folder / f"{change}.so"
        words = ["cc", "-shared", "-fPIC", f"-D{change}", str(SHIM)]
        subprocess.run([*words, *linked, "-o", str(shim)], check=True)
        return {ONEDNN_VARIABLE: str(shim)}

    return build


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("OTHER_INTERFACE", "it is oneDNN 4.9.9, whose interface is another one"),
        ("OTHER_THREADS", "its threads cannot be held to one (runtime 4)"),
        ("REFERENCE", "call 0 of oneDNN: oneDNN 3.2.0 has no fast code for it; export the model"),
        (
            "FAILING",
            "operator conv2d_0 failed: dnnl_primitive_execute failed: invalid_arguments (oneDNN 3",
        ),
    ],
)
def test_another_onednn_is_refused_or_named(built, onednn_model, another, change, message):
    done = started(built(EXAMPLE), onednn_model[0], **another(change))
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize("change", ["LARGER", "UNLIKE", "OTHER_CODE"])
def test_what_a_onednn_chooses_is_asked_where_the_model_runs(
    built, onednn_model, another, folder, change
):
    """Formats, sizes and codes may be others than on the machine that exported the model."""
    path, x, wanted = onednn_model
    words = (path, "--input", x, "--output", folder / "other.bin")
    done = started(built(EXAMPLE), *words, **another(change))
    assert done.returncode == 0, done.stderr
    got = np.fromfile(folder / "other.bin", "float32")
    np.testing.assert_allclose(got, wanted.ravel(), rtol=1e-5)


def test_what_only_python_can_run_is_refused(built, tmp_path, monkeypatch):
    monkeypatch.setattr(OnednnLibrary, "program", lambda *_: None)  # as where there is no oneDNN
    x = relay.var("x", shape=(1, 16, 8, 8))
    weight = relay.const(np.ones((16, 16, 3, 3), "float32"))
    call = relay.nn.conv2d(x, weight, padding=(1, 1), channels=16, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.nn.relu(call))
    options = TuneOptions(build=BuildOptions(libraries=("onednn",)))
    path = tmp_path / "model.so"
    tvm_ios.compile_schedule(mod, None, TARGET, lanes=1, options=options).export_library(path)
    done = started(built(EXAMPLE), path)
    assert done.returncode == 1
    assert "oneDNN computes operators of it; open it with tvm_ios.load in Python" in done.stderr


def of_library(plan):
    return [launch for launch in plan.launches if launch.call is not None]


def test_what_onednn_refuses_is_computed_by_kernels_in_c(built, tmp_path):
    x = relay.var("x", shape=(1, 16, 8, 8))
    weight = relay.const(np.ones((16, 16, 3, 3), "float32"))
    images = relay.nn.conv2d(x, weight, padding=(1, 1), channels=16, kernel_size=(3, 3))
    rows = relay.reshape(relay.nn.relu(images), (16, 64))
    scaled = relay.nn.softmax(rows) * relay.var("y", shape=(16, 64))  # refused by oneDNN 3.2
    mod = tvm.IRModule.from_expr(scaled)
    options = TuneOptions(build=BuildOptions(libraries=("onednn",)))
    path = tmp_path / "model.so"
    compiled = tvm_ios.compile_schedule(mod, None, TARGET, lanes=1, options=options)
    assert len(of_library(compiled.plan)) == 2
    compiled.export_library(path)
    with tvm_ios.load(path, any_processor_model=True) as executor:
        assert len(of_library(executor.plan)) == 1
    done = started(built(EXAMPLE), path)
    assert done.returncode == 0, done.stderr


def test_a_program_without_a_tvm_says_so(built, model, folder):
    words = printed("c-api")
    runtime = next(word.removeprefix("-L") for word in words if word.startswith("-L"))
    words = [word for word in words if runtime not in word and word != "-ltvm_runtime"]
    program = folder / "alone"
    subprocess.run(["cc", str(EXAMPLE), *words, "-o", str(program)], check=True)
    done = subprocess.run(
        [str(program), str(model[0])],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 1
    assert "there is no TVM runtime: link with -ltvm_runtime" in done.stderr


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "weights"])
@pytest.mark.parametrize("library", ["kernels", "oneDNN"])
def test_models_of_other_numbers_compute_the_same_bits(built, folder, library, precision):
    if precision == "int8":
        prepared = prepare(quantised_images(), None, host_target())
    elif precision == "weights":
        prepared = prepare(weights_of_bytes(), None, host_target())
    else:
        prepared = prepare(images(), None, host_target())
        prepared = with_low_precision(prepared, low_values(prepared.extraction).most())
    low = build_prepared(prepared)
    if library == "oneDNN":
        if find_onednn().version is None:
            pytest.skip(f"no oneDNN here: {find_onednn().reason}")
        low = replace(low, libraries=(OnednnLibrary(),))
    compiled = lower_schedule(low, greedy_schedule(low.graph), lanes=min(2, os.cpu_count() or 1))
    path, values = folder / f"{precision}_{library}.so", folder / "low.bin"
    compiled.export_library(path)
    x = np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype("float32")
    x.tofile(values)
    with compiled.executor() as here, tvm_ios.load(path) as loaded:
        for executor in (here, loaded):
            executor.run(data=x)
        wanted = here.get_output(0).numpy()
        np.testing.assert_array_equal(loaded.get_output(0).numpy(), wanted)
    done = started(built(EXAMPLE), path, "--input", values, "--output", folder / "low_z.bin")
    assert done.returncode == 0, done.stderr
    got = np.fromfile(folder / "low_z.bin", "float32").reshape(wanted.shape)
    np.testing.assert_array_equal(got, wanted)
