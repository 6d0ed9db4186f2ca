"""Kernels lowered one by one: with vector mathematics on CPUs, or exactly as by stock TVM."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.ir.instrument import PassTimingInstrument
from tvm.ir.transform import PassContext
from tvm.relay.backend import te_compiler

from tests.stock import stock_outputs
from tvm_ios.kernels import KernelCache, KernelCompiler, KernelCounts, LoweredKernel
from tvm_ios.kernels.code_generation import CodeGeneration, generate
from tvm_ios.relay.build import build
from tvm_ios.relay.context import model_digest, tvm_pipeline
from tvm_ios.relay.dataflow import local_function
from tvm_ios.relay.extract import extract
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.kernels import lower_kernels
from tvm_ios.relay.prepare import prepare
from tvm_ios.support.exact_bits import exact_bits

TARGET = "llvm -mcpu=core-avx2"
SHAPE = (1, 32, 14, 16)


def network():
    """GELU, and two poolings, which are the same in all ways."""
    x = relay.var("x", shape=SHAPE)
    half = relay.const(0.5)
    gelu = x * (half + relay.erf(x * relay.const(0.7071)) * half)
    return tvm.IRModule.from_expr(
        relay.Function([x], relay.Tuple([relay.nn.max_pool2d(gelu), relay.nn.avg_pool2d(x)]))
    )


def fused(module=None):
    return prepare(module or network(), None, TARGET).module


def lowered(module=None, target=TARGET):
    calls = extract(fused(module)).calls
    with tvm_pipeline():
        return [kernel for _, kernel in lower_kernels(calls, resolve_target(target))]


def operators(kernel):
    names = set()

    def visit(node):
        if isinstance(node, tvm.tir.Call):
            names.add(node.op.name)

    tvm.tir.stmt_functor.post_order_visit(kernel.function.body, visit)
    return names


def test_exact_kernels_are_those_of_stock_tvm():
    with exact_bits(True):
        kernels = lowered()
        calls = extract(fused()).calls
    compiler = te_compiler.get()
    for kernel, call in zip(kernels, calls, strict=True):
        with tvm_pipeline():
            compiler.clear()
            stock = compiler.lower(local_function(call), resolve_target(TARGET), "default")
        compiler.clear()
        function = stock.funcs[stock.prim_fn_var]
        assert LoweredKernel(kernel.stem, function, kernel.source_digest).code == kernel.code


def test_only_kernels_with_mathematics_differ_from_exact_ones():
    with exact_bits(True):
        exact = {kernel.symbol: operators(kernel) for kernel in lowered()}
    ours = {kernel.symbol: operators(kernel) for kernel in lowered()}
    (erf,) = (symbol for symbol, names in exact.items() if "tir.erf" in names)
    assert len(exact) == len(ours) == 3
    assert exact.keys() - ours.keys() == {erf}
    assert not any("tir.erf" in names or "tir.exp" in names for names in ours.values())


def test_other_targets_than_cpus_keep_what_tvm_does():
    kernels = lowered(target="cuda -arch=sm_80")
    assert any("tir.erf" in operators(kernel) for kernel in kernels)


@pytest.mark.parametrize(
    "context",
    [
        {"instruments": [PassTimingInstrument()]},
        {"config": {"tir.add_lower_pass": [(1, tvm.tir.transform.RemoveNoOp())]}},
        {"disabled_pass": ["tir.UnrollLoop"], "config": {"tir.disable_vectorize": True}},
    ],
    ids=["instruments", "passes", "settings"],
)
def test_the_callers_context_has_vector_mathematics_too(context):
    with PassContext(opt_level=3, **context):
        kernels = lowered()
    assert not any("tir.erf" in operators(kernel) for kernel in kernels)


def test_our_passes_leave_kernels_portable():
    with tvm_pipeline():
        lowered()
        assert CodeGeneration.current(resolve_target(TARGET)).portable


@pytest.mark.slow
def test_a_cache_of_exact_kernels_is_not_mixed_up_with_others(tmp_path):
    cache, target = KernelCache(tmp_path), resolve_target(TARGET)

    def counts(kernels):
        with KernelCompiler(target, cache=cache, workers=0) as compiler:
            for kernel in kernels:
                compiler.add(kernel)
            compiler.archives()
            return compiler.counts

    with exact_bits(True):
        assert counts(lowered()) == KernelCounts(compiled=3)
    # The version before made exactly what is exact now, so its cache is the same.
    assert counts(lowered()) == KernelCounts(compiled=1, from_cache=2)
    with exact_bits(True):
        assert counts(lowered()) == KernelCounts(from_cache=3)
    assert counts(lowered()) == KernelCounts(from_cache=3)


def test_names_are_the_same_whenever_a_kernel_is_lowered_and_in_workers():
    first, again = lowered(), lowered()
    assert [kernel.symbol for kernel in first] == [kernel.symbol for kernel in again]
    for kernel in first:
        sent = tvm.ir.load_json(tvm.ir.save_json(kernel.module()))
        assert tvm.ir.structural_equal(sent, kernel.module())


def test_machine_code_has_no_call_of_libm():
    for kernel in lowered():
        archive = generate(kernel, resolve_target(TARGET))
        assert not re.search(rb"\berff\b", archive)
    with exact_bits(True):
        assert any(b"erff" in generate(k, resolve_target(TARGET)) for k in lowered())


def test_a_models_digest_holds_whether_bits_are_exact():
    ours = model_digest(network(), None)
    with exact_bits(True):
        exact = model_digest(network(), None)
    assert ours != exact


def test_values_are_right_with_lanes_that_do_not_fill_vectors():
    x = relay.var("x", shape=(3, 7, 5))
    body = relay.sigmoid(x) * relay.tanh(relay.exp(x)) + relay.rsqrt(relay.exp(x))
    module = tvm.IRModule.from_expr(relay.Function([x], body))
    values = np.random.default_rng(0).uniform(-4, 4, (3, 7, 5)).astype("float32")
    e = np.exp(values.astype("float64"))
    wanted = e / (1 + e) * np.tanh(e) + 1 / np.sqrt(e)
    staged = build(prepare(module, None, TARGET).module, TARGET)
    (found,) = stock_outputs(staged.factory, x=values)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert not staged.exact
