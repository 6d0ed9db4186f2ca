"""cuDNN next to TVM's kernels: prices decide, by the clock of the stand-ins for CUDA and cuDNN.

There a kernel of TVM takes 1,000 ns, a convolution by cuDNN 500 ns where its window is larger than
one element and 2,000 ns where it is not.
"""

from __future__ import annotations

import pytest

MERGED = "conv2d_0+conv2d_1"


@pytest.mark.slow
def test_a_merge_stage_is_priced_with_both_kernels(cuda_stand_in, tmp_path):
    seen = cuda_stand_in.run(
        "cudnn_merged", cudnn=True, network_name="small", database_folder=str(tmp_path)
    )
    tvm, cudnn = seen["by_tvm"], seen["by_cudnn"]
    assert tvm["members"] == cudnn["members"] == [0, 1]
    # 1x1 and 3x3: alone each keeps its faster kernel, beside each other both at once.
    assert (tvm["alone"], cudnn["alone"]) == ([1000, 1000], [1000, 500])
    # Merged they are one of 3x3, with a copy more, since the pooling beside them is joined on.
    assert (tvm["priced"], cudnn["priced"]) == ([2000, 1000], [1500, 1000])
    # A schedule says who computes what, the merged convolution by its members.
    assert (tvm["chosen"], tvm["by"]) == (None, [])
    assert cudnn["chosen"][:2] == [0, 1]
    assert [name.replace("_relu", "") for name in cudnn["by"]] == [MERGED, "conv2d_2"]
    assert seen["live"] == {}


@pytest.mark.slow
def test_tune_keeps_what_is_faster_operator_by_operator(cuda_stand_in, tmp_path):
    seen = cuda_stand_in.run(
        "cudnn_tuned",
        cudnn=True,
        network_name="small",
        database_folder=str(tmp_path),
        path=str(tmp_path / "model.so"),
    )
    first, second, by_tf32 = seen["runs"]
    for run in seen["runs"]:
        assert run["fallback"] is None
        assert 0 < len(run["calls"]) < run["kinds"].count("conv2d")  # both kinds of kernels
        assert all(window != [1, 1] for _, window in run["windows"])
        assert "2 of the 4 operators that cuDNN 9.10.2" in run["notes"][0]
    assert first["searches"] > 0
    # The second time everything is known, algorithms of merged convolutions too.
    assert second["searches"] == 0
    assert (second["chosen"], second["calls"]) == (first["chosen"], first["calls"])
    assert {tuple(call[1:]) for call in first["calls"]} == {(False, 0)}
    assert {tuple(call[1:]) for call in by_tf32["calls"]} == {(True, 6)}
    assert by_tf32["searches"] > 0
    assert "without TF32" in first["notes"][0]
    assert "with TF32" in by_tf32["notes"][0]
    # A schedule brings the choice along; without one cuDNN computes all that it can.
    chosen = [call[0] for call in by_tf32["calls"]]
    assert seen["again"] == seen["partitioned"] == chosen
    assert (seen["plain"], seen["everything"]) == (0, 4)
    # So does a file, with the algorithms: loading it searches nothing.
    assert seen["kept"]
    # One that was compiled without a GPU looks into a database, and finds them once.
    (first_load, numbers), again = seen["searches_at_load"]
    assert first_load > 0
    assert again == [0, numbers]
    assert "cudnnConvolutionBiasActivationForward" in seen["loaded"]
    assert not any("Find" in name for name in seen["loaded"])
    assert seen["live"] == {}
