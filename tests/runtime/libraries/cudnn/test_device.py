"""Operators that cuDNN computes, in streams and graphs, under the stand-ins for CUDA and cuDNN."""

from __future__ import annotations

import pytest

IN_A_CAPTURE = {
    "cuEventRecord",
    "cuLaunchKernel",
    "cuStreamWaitEvent",
    "cudaGetDevice",
    "cudaSetDevice",
    "cudnnAddTensor",
    "cudnnConvolutionBiasActivationForward",
    "cudnnConvolutionForward",
}


def check(seen, lanes):
    for way in ("streams", "graph"):
        ours = seen[way]
        for wrong in ("launches", "unordered", "needless", "sharing", "bias"):
            assert ours[wrong] == [], (way, wrong)
        assert (ours["strangers"], ours["shared_workspace"]) == (0, 0)
        assert ours["streams"] <= lanes
    # No allocation, nothing that waits, and no stream is set anew.
    assert set(seen["graph"]["calls"]) <= IN_A_CAPTURE
    assert set(seen["streams"]["calls"]) <= IN_A_CAPTURE | {"cuCtxSetCurrent"}
    assert seen["traced"] == seen["launches"]
    # One handle a stream, set to it once.
    assert seen["handles"] == seen["set"]
    streams = [stream for _, stream in seen["set"]]
    assert len(set(streams)) == len(streams) <= lanes
    assert seen["searches"] == 0
    assert seen["fallback"] is None
    assert seen["live"] == {}


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize(
    ("model", "every"), [pytest.param("small", 2, marks=pytest.mark.slow), ("convolutions", 1)]
)
@pytest.mark.slow
def test_calls_are_on_their_streams_and_in_order(cuda_stand_in, model, lanes, every):
    seen = cuda_stand_in.run("cudnn_runs", model, cudnn=True, lanes=lanes, every=every)
    check(seen, lanes)
    assert 0 < seen["by_cudnn"] < seen["launches"]
    assert seen["workspace"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "every"),
    [pytest.param("squeezenet", 1, marks=pytest.mark.full), ("nasnet_small", 3)],
)
def test_networks_mix_both_in_order(cuda_stand_in, model, every):
    seen = cuda_stand_in.run("cudnn_runs", model, cudnn=True, lanes=4, every=every)
    check(seen, 4)


@pytest.mark.slow
def test_algorithms_are_found_once_and_kept(cuda_stand_in, tmp_path):
    seen = cuda_stand_in.run(
        "cudnn_algorithms", "convolutions", cudnn=True, database_folder=str(tmp_path)
    )
    first, again = seen["first"], seen["second"]
    assert first["searches"] == 3 * len(first["numbers"])
    assert first["numbers"] == again["numbers"]
    assert (again["searches"], again["heuristics"]) == (0, 0)
    # The fastest algorithm takes no activation, and one by TF32 was not asked for.
    assert [number for relu, _, number in first["numbers"]] == [
        0 if relu else 5 for relu, _, _ in first["numbers"]
    ]
    assert {number for _, _, number in seen["tf32"]["numbers"]} == {6}
    # Another version, another search; heuristics where memory is short, which are not kept.
    assert seen["version"]["searches"] == first["searches"]
    for short in ("little", "little-again"):
        assert seen[short]["searches"] == 0
        assert seen[short]["heuristics"] == len(first["numbers"])
    # That nothing computes a convolution is kept, too; TVM's kernels do then.
    assert {number for _, _, number in seen["nothing"]["numbers"]} == {None}
    assert (seen["nothing"]["searches"] > 0, seen["nothing-again"]["searches"]) == (True, 0)
    assert all(seen["kernels"])
    assert all(seen[name]["again"] for name in ("first", "second", "tf32"))
    assert seen["live"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("graphs", [False, True])
def test_an_error_at_any_call_is_told_and_leaves_nothing(cuda_stand_in, graphs):
    seen = cuda_stand_in.run("cudnn_inject", "convolutions", cudnn=True, graphs=graphs)
    told = set()
    for row in seen["rows"]:
        assert not row["pending"], row
        assert row["live"] == {}, row
        assert row["warnings"] == [], row
        assert row["error"].startswith("CudaCallError"), row
        assert f"{row['call']} failed: CUDNN_STATUS_EXECUTION_FAILED (cuDNN 9.10.2)" in row["error"]
        if row["kernel"]:
            assert any(f"operator {name!r} (by cuDNN" in row["error"] for name in seen["operators"])
        told.add(row["call"])
    assert told >= {"cudnnAddTensor", "cudnnConvolutionForward", "cudnnCreate", "cudnnSetStream"}


@pytest.mark.slow
def test_want_of_memory_and_of_an_algorithm_are_told(cuda_stand_in):
    seen = cuda_stand_in.run("cudnn_workspace", "convolutions", cudnn=True)
    assert "bytes of workspace: cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY" in seen["memory"]
    assert "(by cuDNN, stage" in seen["memory"]
    assert seen["after"] is None
    assert "BiasActivationForward failed: CUDNN_STATUS_NOT_SUPPORTED" in seen["refused"]
    assert seen["live"] == {}


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("cuda_graph", [False, True])
@pytest.mark.parametrize("tf32", [False, True])
def test_outputs_on_a_gpu_are_those_of_tvm(cuda_graph, tf32):
    """cuDNN adds up in another order, so nearly the same; with TF32, less nearly."""
    import numpy as np
    import tvm

    import tvm_ios
    from tvm_ios.errors import HostError
    from tvm_ios.models import squeezenet
    from tvm_ios.runtime.libraries.cudnn.library import load_cudnn
    from tvm_ios.search.baselines import greedy_schedule

    if not tvm.cuda().exist:
        pytest.skip("there is no GPU, or no driver of it")
    try:
        load_cudnn()
    except HostError as error:
        pytest.skip(str(error))
    mod, params = squeezenet()
    first = tvm_ios.compile_schedule(mod, params, "cuda")
    schedule = greedy_schedule(first.graph)
    options = tvm_ios.TuneOptions(build=tvm_ios.BuildOptions(libraries=("cudnn",), tf32=tf32))
    model = tvm_ios.compile_schedule(mod, params, "cuda", schedule=schedule, options=options)
    assert any(launch.call is not None for launch in model.plan.launches)
    random = np.random.default_rng(1)
    tolerance = 1e-2 if tf32 else 1e-4
    with model.executor(cuda_graph=cuda_graph) as ours, first.executor() as theirs:
        (name,) = {e.name for e in model.plan.inputs} - model.kernels.staged.params.keys()
        shape = theirs.get_input(name).shape
        answers = set()
        for _ in range(5):
            value = random.standard_normal(shape).astype("float32")
            theirs.run(**{name: value})
            expected = theirs.get_output(0).numpy()
            for _ in range(3):
                ours.run(**{name: value})
                found = ours.get_output(0).numpy()
                answers.add((value.tobytes(), found.tobytes()))
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        assert len(answers) == 5  # run after run, not a bit differs
        assert ours.fallback is None
