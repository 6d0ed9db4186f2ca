"""Kernels lowered one by one: with vector mathematics on CPUs, or exactly as by stock TVM."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from tvm import autotvm, relay
from tvm.ir.instrument import PassTimingInstrument
from tvm.ir.transform import PassContext
from tvm.relay.backend import te_compiler

from tests.relay_graphs.rounded import rounded_in_float32
from tests.stock import stock_outputs
from tvm_ios.kernels.cache import KernelCache
from tvm_ios.kernels.code_generation import CodeGeneration, generate
from tvm_ios.kernels.compile import KernelCompiler, KernelCounts
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.relay.build import build
from tvm_ios.relay.context import model_digest, tvm_pipeline
from tvm_ios.relay.dataflow import local_function
from tvm_ios.relay.extract import extract
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.kernels import lower_kernels
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
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


def convolved(x, channels=16, groups=1, layout="NCHW", kernel=3):
    """A convolution of 16 channels with weights that are always the same."""
    shape = (channels, 16 // groups, kernel, kernel)
    values = np.random.default_rng(groups).uniform(-0.3, 0.3, shape).astype("float32")
    kernel_layout = "OIHW"
    if layout == "NHWC":
        kernel_layout = "HWIO" if groups == 1 else "HWOI"
        values = values.transpose(2, 3, 1, 0) if groups == 1 else values.transpose(2, 3, 0, 1)
    return relay.nn.conv2d(
        x,
        relay.const(np.ascontiguousarray(values)),
        padding=(kernel // 2, kernel // 2),
        channels=channels,
        kernel_size=(kernel, kernel),
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )


def attended(x):
    """Attention of 7 rows to each other, in 4 heads."""
    heads = relay.reshape(x, (4, 28, 7))
    q, k, v = (
        relay.reshape(relay.nn.relu(heads + relay.const(n)), (4, 28, 7)) for n in (0.1, 0.2, 0.3)
    )
    scores = relay.nn.batch_matmul(q, k, transpose_b=True) * relay.const(0.378)
    return relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)


IN_BFLOAT16 = {
    "convolution": lambda x: relay.nn.relu(convolved(x) + x),
    "depthwise": lambda x: relay.clip(convolved(x, groups=16), 0.0, 6.0),
    "grouped": lambda x: convolved(x, groups=4),
    "NHWC": lambda x: relay.nn.max_pool2d(
        convolved(relay.transpose(x, (0, 2, 3, 1)), layout="NHWC"), (2, 2), layout="NHWC"
    ),
    "depthwise of NHWC": lambda x: convolved(
        relay.nn.relu(relay.transpose(x, (0, 2, 3, 1))), groups=16, layout="NHWC"
    ),
    "transposed": lambda x: relay.nn.conv2d_transpose(
        x,
        relay.const(np.full((16, 4, 2, 2), 0.1, "float32")),
        channels=4,
        kernel_size=(2, 2),
        strides=(2, 2),
    ),
    "concatenation": lambda x: relay.concatenate([x, relay.sigmoid(x), relay.nn.relu(x)], 3),
    "poolings": lambda x: relay.nn.avg_pool2d(
        relay.nn.max_pool2d(x, (3, 3), padding=(1, 1)), (2, 2)
    ),
    "global": lambda x: x * relay.sigmoid(relay.nn.global_avg_pool2d(x)),
    "resize": lambda x: relay.image.resize2d(x, (11, 9), method="linear"),
    "cubic": lambda x: relay.image.resize2d(x, (11, 9), method="cubic"),
    "transpose": lambda x: relay.transpose(relay.nn.relu(relay.reshape(x, (16, 7, 7))), (2, 0, 1)),
    "split": lambda x: relay.add(*relay.split(relay.nn.softmax(x), 2, axis=1)),
    "fields": lambda x: relay.concatenate(
        list(map(relay.nn.softmax, relay.split(x, 2, axis=1))), 0
    ),
    "softmax": lambda x: relay.nn.softmax(relay.reshape(x, (16, 49))),
    "log": lambda x: relay.nn.log_softmax(relay.reshape(x, (16, 49))),
    "norm": lambda x: relay.nn.layer_norm(
        relay.reshape(x, (16, 49)), *[relay.const(np.ones(49, "float32"))] * 2
    ),
    "attention": attended,
    "sums": lambda x: relay.sum(x, axis=(1, 2)),
    "sorted": lambda x: relay.sort(x, axis=1),
    "cumulative": lambda x: relay.cumsum(x, axis=2),
    "places": lambda x: relay.gather(x, 1, relay.argsort(x, axis=1, dtype="int64")),
    "gelu": lambda x: x * (relay.const(0.5) + relay.erf(x) * relay.const(0.5)),
}
"""Something between two convolutions and a product, by kernel that it is of."""


GROUPS = tuple(tuple(IN_BFLOAT16)[begin::4] for begin in range(4))
"""All of them, as many to a model as let its kernels be compiled together."""


def assert_has_bits_of_rounded_float32(names):
    x = relay.var("x", shape=(1, 16, 7, 7))
    first = convolved(x, kernel=1)
    ends = []
    for name in names:
        made = IN_BFLOAT16[name](first)
        shape = relay.transform.InferType()(tvm.IRModule.from_expr(made))["main"].ret_type.shape
        count = int(np.prod(list(map(int, shape))))
        weight = np.random.default_rng(0).uniform(-0.3, 0.3, (8, count)).astype("float32")
        ends.append(relay.nn.dense(relay.reshape(made, (1, count)), relay.const(weight)))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(ends)))
    exact = prepare(module, None, f"{TARGET} -opt-level=0")
    low = with_low_precision(exact, low_values(exact.extraction).most())
    assert len(low.low.results) > len(names)
    rounded = rounded_in_float32(exact.extraction, low.extraction)
    values = np.random.default_rng(1).uniform(-1, 1, (1, 16, 7, 7)).astype("float32")
    found, wanted = (
        stock_outputs(build(module, exact.target).factory, x=values)
        for module in (low.module, rounded)
    )
    for name, ours, theirs in zip(names, found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.slow(3)
@pytest.mark.parametrize("names", GROUPS, ids=", ".join)
def test_kernels_in_bfloat16_have_the_bits_of_rounded_float32(names):
    assert_has_bits_of_rounded_float32(names)


@pytest.mark.slow(1)
def test_kernels_in_bfloat16_are_as_right_where_bits_are_exact():
    with exact_bits(True):
        assert_has_bits_of_rounded_float32([next(iter(IN_BFLOAT16))])


class Asked(autotvm.task.DispatchContext):
    """Context that notes which records it is asked for."""

    def __init__(self):
        super().__init__()
        self.workloads = set()

    def query(self, target, workload):
        self.workloads.add(workload)
        return self._old_ctx.query(target, workload)

    def update(self, target, workload, cfg):
        self._old_ctx.update(target, workload, cfg)


@pytest.mark.slow(1)
def test_kernels_in_bfloat16_ask_for_the_records_of_float32():
    x = relay.var("x", shape=(1, 16, 7, 7))
    body = convolved(relay.nn.relu(convolved(convolved(x, groups=16))), kernel=1)
    exact = prepare(tvm.IRModule.from_expr(relay.Function([x], body)), None, TARGET)
    low = with_low_precision(exact, low_values(exact.extraction).most())
    assert len(low.low.weights) == 3

    def asked(model):
        with tvm_pipeline(), Asked() as context:
            kernels = [code for _, code in lower_kernels(model.extraction.calls, exact.target)]
        assert len(kernels) == len(model.extraction.calls)
        return context.workloads

    wanted = asked(exact)
    assert wanted
    assert asked(low) == wanted
