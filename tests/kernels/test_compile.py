"""Kernels compiled one by one: here or in workers, once, and anew when anything changes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor
from tvm.ir.instrument import PassTimingInstrument
from tvm.ir.transform import PassContext

from tests.kernels.conftest import TARGET, sums
from tvm_ios.kernels.cache import KernelCache
from tvm_ios.kernels.code_generation import CodeGeneration
from tvm_ios.kernels.compile import KernelCompiler, KernelCounts
from tvm_ios.relay.build import build
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import prepare


@pytest.fixture
def cache(tmp_path):
    return KernelCache(tmp_path)


def compiled(kernels, target, cache, workers=0):
    with KernelCompiler(target, cache=cache, workers=workers) as compiler:
        for kernel in kernels:
            compiler.add(kernel)
        return compiler.archives(), compiler.counts


def test_a_kernel_is_compiled_once(kernels, target, cache):
    first, made = compiled([*kernels, *kernels], target, cache)
    again, found = compiled(kernels, target, cache)
    assert set(first) == {kernel.symbol for kernel in kernels}
    assert first == again
    assert made == KernelCounts(compiled=3)
    assert found == KernelCounts(from_cache=3)


def test_a_damaged_entry_is_compiled_again(kernels, target, cache):
    first, _ = compiled(kernels, target, cache)
    entry = min(cache.folder.iterdir())
    entry.write_bytes(entry.read_bytes()[:-20])
    again, counts = compiled(kernels, target, cache)
    assert counts == KernelCounts(compiled=1, from_cache=2)
    assert again == first


@pytest.mark.slow
def test_workers_make_the_same_code(lowered, target, tmp_path):
    kernels = lowered(sums(14))
    here, _ = compiled(kernels, target, KernelCache(tmp_path / "here"))
    there, counts = compiled(kernels, target, KernelCache(tmp_path / "there"), workers=2)
    assert here == there
    assert counts == KernelCounts(compiled=14)


@pytest.mark.slow
def test_a_worker_that_dies_costs_nothing_but_time(lowered, target, cache, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    kernels = lowered(sums(13))
    archives, counts = compiled(kernels, target, cache, workers=1)
    assert set(archives) == {kernel.symbol for kernel in kernels}
    assert counts == KernelCounts(compiled=13)


def key(kernel, target=TARGET, **context):
    with PassContext(**context):
        return CodeGeneration.current(resolve_target(target)).key(kernel)


def test_a_key_holds_what_the_code_depends_on(kernels, monkeypatch):
    kernel, other, _ = kernels
    keys = [
        key(kernel),
        key(other),
        key(kernel, "llvm -mcpu=skylake"),
        key(kernel, f"{TARGET} -num-cores=2"),
        key(kernel, opt_level=1),
        key(kernel, disabled_pass=["tir.UnrollLoop"]),
        key(kernel, required_pass=["tir.UnrollLoop"]),
        key(kernel, config={"tir.disable_vectorize": True}),
        key(kernel, config={"tir.UnrollLoop": {"auto_max_step": 3}}),
        key(kernel, config={"tir.UnrollLoop": {"auto_max_step": 4}}),
    ]
    assert len(set(keys)) == len(keys)
    assert key(kernel) == keys[0]
    assert key(kernel, config={"relay.FuseOps.max_depth": 3}) == keys[0]
    monkeypatch.setattr(tvm, "__version__", "0.17.1")
    monkeypatch.setattr(
        "tvm_ios.kernels.code_generation.compilers", lambda: (tvm.__version__, "", "")
    )
    assert key(kernel) not in keys


def test_a_name_depends_on_the_code_alone(kernels, lowered):
    wider = lowered(sums(5))
    assert [kernel.symbol for kernel in wider[:3]] == [kernel.symbol for kernel in kernels]
    assert len({kernel.symbol for kernel in wider}) == 5


def test_passes_of_a_user_see_every_kernel(kernels, target, cache):
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(function, _module, _context):
        seen.append(function)
        return function

    compiled(kernels, target, cache)
    with PassContext(config={"tir.add_lower_pass": [(1, look)]}):
        for _ in range(2):
            assert compiled(kernels, target, cache)[1] == KernelCounts(compiled=3)
    assert len(seen) == 6
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        assert compiled(kernels, target, cache)[1] == KernelCounts(compiled=3)
        assert "tir.VectorizeLoop" in timing.render()
    assert compiled(kernels, target, cache)[1] == KernelCounts(from_cache=3)


def test_a_hook_of_cuda_keeps_kernels_out_of_the_cache():
    gpu = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    assert CodeGeneration.current(gpu).portable
    tvm.register_func("tvm_callback_cuda_postproc", lambda code, _target: code)
    try:
        assert not CodeGeneration.current(gpu).portable
        assert CodeGeneration.current(resolve_target(TARGET)).portable
    finally:
        tvm._ffi.registry.remove_global_func("tvm_callback_cuda_postproc")


def run(staged, data, folder):
    """Outputs on TVM's own executor."""
    staged.factory.export_library(str(folder / "model.so"))
    library = tvm.runtime.load_module(str(folder / "model.so"))
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(data=data)
    return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]


@pytest.mark.slow(1)
def test_networks_share_kernels(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    with caplog.at_level("INFO", logger="tvm_ios.relay.build"):
        _, _, third = (
            build(prepare(sums(count), None, resolve_target(TARGET)).module, TARGET)
            for count in (3, 5, 5)
        )
    told = [text for text in caplog.messages if text.startswith("kernels: ")]
    assert told == [
        "kernels: 3 compiled, 0 from the cache",
        "kernels: 2 compiled, 3 from the cache",
        "kernels: 0 compiled, 5 from the cache",
    ]
    data = np.linspace(-1, 1, 32, dtype="float32").reshape(4, 8)
    outputs = run(third, data, tmp_path)
    for index, output in enumerate(outputs):
        np.testing.assert_allclose(output, (data * (index + 2)).sum(axis=index % 2), rtol=1e-5)
