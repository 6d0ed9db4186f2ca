"""The front of the GPU executors under a recording stand-in for CUDA, and errors at every call."""

from __future__ import annotations

import re
import shutil

import pytest


@pytest.mark.slow(1)
def test_it_answers_like_a_graph_module(cuda_stand_in):
    seen = cuda_stand_in.run("interface", "small")
    assert seen["inputs"] == [5, 5, "float32"]
    assert seen["copied"]
    assert seen["read"]
    assert seen["results"] == 3
    assert seen["streams"] == 2
    assert [line.split(":")[0] for line in seen["text"]] == ["caller", "stream 1", "stream 2"]
    errors = seen["errors"]
    assert "convert it first" in errors["shape"]
    assert re.search(r"must lie on cuda[(:]0", errors["device"])
    assert "no input 'nothing'" in errors["input"]
    assert "outputs are numbered 0 to 0" in errors["output"]
    for action in ("run", "get_output", "set_input", "trace", "time_ns"):
        assert errors[action] == "ExecutionError: this executor is closed; load the model again"
    assert seen["live"] == {}


def test_runs_belong_to_the_callers_stream(cuda_stand_in):
    seen = cuda_stand_in.run("caller_streams", "small")
    assert seen["failures"] == []
    for way in ("graph", "streams"):
        ours = seen[way]
        assert "cuCtxSynchronize" in ours["changed"]  # the stream before may still be at work
        assert not {"cuCtxSynchronize", "cuStreamSynchronize"} & set(ours["unchanged"])
        assert ours["set"][:2] == ["cuCtxSetCurrent", "cuEventSynchronize"]
        assert ours["set"][-1] == "cudaStreamSynchronize"
        assert ours["read"] == ["cuCtxSetCurrent", "cuEventSynchronize"]
    (other,) = set(seen["graph"]["other"])
    assert other > 0
    assert other in seen["streams"]["other"] or seen["streams"]["other"]
    assert seen["graph"]["default"] == [0]
    assert 0 in seen["streams"]["default"]
    assert 0 not in seen["streams"]["other"]
    assert seen["live"] == {}


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_trace_shows_what_overlaps(cuda_stand_in, lanes):
    seen = cuda_stand_in.run("trace", "small", lanes=lanes)
    assert seen["early"] == []
    assert seen["launches"]
    assert seen["streams"]
    assert seen["sorted"]
    assert seen["overlapping"] == (lanes > 1)
    assert seen["live"] == {}


def test_a_gpu_that_does_not_fit_is_refused(cuda_stand_in):
    seen = cuda_stand_in.run("unfit", "small")
    assert "there is no cuda(3): the driver shows 1 GPUs" in seen["number"]
    assert "for sm_90, but Stand-in is sm_80" in seen["arch"]
    assert "cuda -arch=sm_80" in seen["arch"]
    assert seen["newer"] is None
    assert "for sm_90a, but Stand-in is sm_100" in seen["exact"]
    memory = seen["memory"]
    assert "cudaMalloc failed: CUDA_ERROR_OUT_OF_MEMORY" in memory
    assert f"{seen['plan'][0]:,} of intermediate tensors" in memory
    assert "of 20,000 bytes are free" in memory
    assert "lower the batch size or the number of streams" in memory
    assert seen["none"] is None
    assert seen["live"] == {}


def test_no_gpu_is_one_clear_error(cuda_stand_in):
    error = cuda_stand_in.run("no_device")["error"]
    assert error.startswith("HostError: no GPU can be used: cuInit failed: CUDA_ERROR_NO_DEVICE")
    assert "nvidia-smi" in error


SILENT = {"cuCtxSynchronize", "cudaFree"}
"""What is called to free and to wait before that: nobody can do anything about an error there."""


@pytest.mark.slow
@pytest.mark.parametrize("graphs", [False, True])
def test_an_error_at_any_call_is_told_and_leaves_nothing(cuda_stand_in, graphs):
    seen = cuda_stand_in.run("inject", "sorting", graphs=graphs)
    operators = [f"operator {name!r}" for name in seen["operators"]]
    told = set()
    for row in seen["rows"]:
        where = (row["call"], row["nth"], row["error"])
        assert not row["pending"], where
        assert row["live"] == {}, where
        assert row["warnings"] == [], where
        if row["error"] is None:
            assert {row["call"], row["next"]} & SILENT, where
            continue
        assert row["type"] == "CudaCallError", where
        # Of its own calls TVM names only those of the driver.
        assert row["call"].startswith("cuda") or row["call"] in row["error"], where
        if "kernel" in row["fields"]:
            assert any(operator in row["error"] for operator in operators), where
        told.add(row["call"])
    assert {"cuLaunchKernel", "cuStreamWaitEvent", "cuEventRecord", "cuMemAlloc_v2"} < told
    assert ("cuGraphLaunch" in told) == graphs


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="device code needs nvcc on PATH")
def test_a_schedule_is_compiled_exported_and_loaded(cuda_stand_in, tmp_path):
    target = "cuda -arch=sm_90"
    seen = cuda_stand_in.run("compiled", target=target, path=str(tmp_path / "model.so"))
    assert seen["lanes"] == [1, 3, 2]
    # Slices of the merged convolution are views, so what joins them with the pooling is a kernel.
    assert seen["launches"] == [5, 5]
    shape = [1, 24, 8, 8]
    # A loaded file brings its native code along, so that loading needs no C compiler.
    assert seen["runs"] == [[shape, None, False], [shape, None, True]] * 2
    assert seen["stock"] in ([], [shape, shape])  # stock TVM 0.27 runs no file of ours
    cpu, lanes, load, load_lanes, load_options, streams = seen["errors"]
    for error in (cpu, load):
        assert re.search(r"device is cpu[(:]0", error)
        assert "but this model is compiled for tvm.cuda()" in error
    for error in (lanes, load_lanes, load_options):
        assert "lanes and options are for CPUs; this model runs on 2 streams" in error
    assert "give 1 to 32 streams" in streams


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_outputs_on_a_gpu_are_those_of_stock_tvm(cuda_graph, tmp_path):
    """The same kernels on the same values: not a bit differs, run after run."""
    import numpy as np
    import tvm
    from tvm.contrib import graph_executor

    import tvm_ios
    from tvm_ios.models import nasnet_small
    from tvm_ios.search.baselines import greedy_schedule

    if not tvm.cuda().exist:
        pytest.skip("there is no GPU, or no driver of it")
    mod, params = nasnet_small()
    first = tvm_ios.compile_schedule(mod, params, "cuda")
    schedule = greedy_schedule(first.graph)
    model = tvm_ios.compile_schedule(mod, params, "cuda", schedule=schedule)
    model.export_library(tmp_path / "model.so")
    exported = tvm.runtime.load_module(str(tmp_path / "model.so"))
    stock = graph_executor.GraphModule(exported["default"](tvm.cuda()))
    random = np.random.default_rng(1)
    with model.executor(cuda_graph=cuda_graph) as module:
        assert module.num_streams > 1
        (name,) = {e.name for e in model.plan.inputs} - model.kernels.staged.params.keys()
        shape = module.get_input(name).shape
        for _ in range(20):
            value = random.standard_normal(shape).astype("float32")
            stock.run(**{name: value})
            module.run(**{name: value})
            expected, found = (each.get_output(0).numpy() for each in (stock, module))
            np.testing.assert_array_equal(found, expected)
        assert module.fallback is None
