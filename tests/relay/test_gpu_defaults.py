"""Kernels nobody has tuned: blocks of many threads, in what a GPU allows a block."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import autotvm, relay
from tvm.autotvm.task.space import FallbackConfigEntity

from tvm_ios.relay import build, prepare
from tvm_ios.relay.gpu_defaults import default_gpu_kernels, default_tiles

EXTENTS = st.integers(1, 300)


@given(channels=st.integers(1, 2100), height=EXTENTS, width=EXTENTS, sums=st.booleans())
def test_tiles_divide_what_they_tile(channels, height, width, sums):
    tiles = default_tiles(channels, height, width, sums=sums)
    for extent, (threads, each) in zip((channels, height, width), tiles, strict=True):
        assert extent % (threads * each) == 0
    assert np.prod([threads for threads, _ in tiles]) <= 256


@pytest.mark.parametrize(
    "output", [(32, 149, 149), (192, 17, 17), (320, 8, 8), (168, 83, 83), (1280, 1, 1)]
)
def test_a_block_has_more_threads_than_a_warp(output):
    for sums in (True, False):
        tiles = default_tiles(*output, sums=sums)
        assert np.prod([threads for threads, _ in tiles]) >= 32


def _source(shape, weight, **attributes):
    """What TVM writes for one convolution; nobody compiles it."""
    sources = []
    callback = "tvm_callback_cuda_compile"
    compile_ = tvm.get_global_func(callback)
    tvm.register_func(callback, lambda code, _: sources.append(code) or "none", override=True)
    try:
        data, kernel = relay.var("data", shape=shape), relay.var("weight", shape=weight)
        module = tvm.IRModule.from_expr(relay.nn.conv2d(data, kernel, **attributes))
        params = {"weight": tvm.nd.array(np.ones(weight, "float32"))}
        prepared = prepare(relay.transform.InferType()(module), params, "cuda -arch=sm_90")
        build(prepared.module, prepared.target, prepared.params)
    finally:
        tvm.register_func(callback, compile_, override=True)
    (source,) = sources
    return source


@pytest.mark.parametrize(
    ("shape", "weight", "attributes", "threads"),
    [
        ((1, 64, 17, 17), (192, 64, 3, 3), {"padding": (1, 1)}, 6 * 17),
        ((1, 16, 83, 83), (16, 1, 5, 5), {"padding": (2, 2), "groups": 16}, 83),
        ((2, 3, 229, 229), (96, 3, 7, 7), {"strides": (2, 2)}, 112),
    ],
)
def test_kernels_have_them(shape, weight, attributes, threads):
    source = _source(shape, weight, **attributes)
    assert {int(n) for n in re.findall(r"__launch_bounds__\((\d+)\)", source)} == {threads}
    shared = re.findall(r"__shared__ float \w+\[(\d+)\]", source)
    assert 0 < 4 * sum(map(int, shared)) <= 48 << 10


def test_a_log_to_imitate_goes_first(monkeypatch):
    imitated = []
    own = FallbackConfigEntity.fallback_with_reference_log
    monkeypatch.setattr(autotvm.tophub, "load_reference_log", lambda *_: ["a record"])

    def imitate(_config, log):
        imitated.extend(log)

    monkeypatch.setattr(FallbackConfigEntity, "fallback_with_reference_log", imitate)
    _source((1, 8, 8, 8), (8, 8, 1, 1))
    assert set(imitated) == {"a record"}
    monkeypatch.undo()
    with default_gpu_kernels():
        assert FallbackConfigEntity.fallback_with_reference_log is not own
    assert FallbackConfigEntity.fallback_with_reference_log is own
