"""GPUs by name, and their throughput: as data sheets print it, but for the K80."""

from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios_lab.analytical.gpu import GPU, GPU_NAMES


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("v100", 15.7),
        ("a100-40gb", 19.5),
        ("a100-80gb", 19.5),
        ("h100", 66.9),
        ("h100-pcie", 51.2),
        ("h200", 66.9),
        ("rtx-4090", 82.6),
        ("t4", 8.1),
        ("k80", 1.86),  # 2.8 with the dual issue that the data sheet counts
    ],
)
def test_throughput(name, teraflops):
    gpu = GPU.by_name(name)
    assert gpu.flops_per_ns / 1000 == pytest.approx(teraflops, rel=0.01)
    assert "NVIDIA" in gpu.source
    assert gpu.graph_launch_ns < gpu.stream_launch_ns < gpu.synchronise_ns


def test_every_name_is_known():
    assert len(set(GPU_NAMES)) == len(GPU_NAMES) == 9
    assert [GPU.by_name(name).name for name in GPU_NAMES] == list(GPU_NAMES)


@pytest.mark.parametrize("name", ["RTX 4090", "rtx_4090", " Rtx-4090 "])
def test_spelling_is_forgiven(name):
    assert GPU.by_name(name).name == "rtx-4090"


@pytest.mark.parametrize("name", ["h1000", "", "rtx", None, 100])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(OptionError, match=f"no GPU named {name!r}; choose one of v100, a100-40gb,"):
        GPU.by_name(name)


def test_text():
    assert GPU.by_name("v100").as_text() == (
        "NVIDIA V100 SXM2: 80 multiprocessors at 1530 MHz, 15.7 TFLOP/s float32, 900 GB/s, L2 6 MB"
    )
    assert GPU.by_name("h100").as_text().endswith("L2 50 MB")
    assert GPU.by_name("k80").as_text().endswith("L2 1.5 MB")
