"""Other layouts and types: results as near as they can be, or a refusal with its reason."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.transform.mixed_precision import DEFAULT_ALWAYS_LIST

import tvm_ios
from tests.stock import stock_outputs
from tvm_ios.core.conversion import Conversion
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError
from tvm_ios.host import cached_libinfo
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.verify import verify_plan
from tvm_ios.relay.build import build
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.extract import extract
from tvm_ios.relay.kernels import lower_kernels
from tvm_ios.relay.prepare import converted_model, prepare
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import flatten
from tvm_ios.relay.transforms.conversion import CONVERSION_TYPE, CONVERT_LAYOUT
from tvm_ios.search.baselines import sequential_schedule

NHWC = Conversion(desired_layout="NHWC")
HALF = Conversion(mixed_precision=True)
HALF_NHWC = Conversion(desired_layout="NHWC", mixed_precision=True)
HALF_SUMS = Conversion(mixed_precision=True, mixed_precision_acc_type="float16")
TOLERANCES = {NHWC: 1e-4, HALF: 1e-2, HALF_NHWC: 1e-2, HALF_SUMS: 1e-2}
"""Of the largest output. A float16 has 11 bits, and errors of layers add up."""
TARGET, GPU = "llvm -mcpu=core-avx2 -opt-level=0", "cuda -arch=sm_90"

needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="no nvcc on PATH: TVM compiles with it"
)


def network(*, batch=1, dtype="float32", channels=16, inception=True):
    """A small Inception module and a SqueezeNet fire, with a batch norm, then a dense layer.

    ``inception`` of False leaves the former out.
    """
    random = np.random.default_rng(0)
    data = relay.var("data", shape=(batch, 3, 20, 20), dtype=dtype)
    params = {}

    def weight(name, shape, scale):
        params[name] = (random.normal(0, scale, shape)).astype("float32").astype(dtype)
        return relay.var(name, shape=shape, dtype=dtype)

    def conv(value, name, inputs, outputs, size, stride=1):
        shape = (outputs, inputs, size, size)
        value = relay.nn.conv2d(
            value,
            weight(name, shape, (2 / (inputs * size * size)) ** 0.5),
            padding=(size // 2, size // 2),
            strides=(stride, stride),
            kernel_size=(size, size),
            channels=outputs,
        )
        return relay.nn.relu(relay.nn.bias_add(value, weight(f"{name}_bias", (outputs,), 0.1)))

    stem = conv(data, "stem", 3, 2 * channels, 3, stride=2)
    ones, zeros = (np.full(2 * channels, fill, dtype) for fill in (1, 0))
    stem = relay.nn.batch_norm(
        stem, *(relay.const(v, dtype) for v in (ones, zeros, zeros, 2 * ones))
    )[0]
    stem = relay.nn.max_pool2d(stem, (3, 3), padding=(1, 1))
    mixed, width = stem, 2 * channels
    if inception:
        pooled = relay.nn.avg_pool2d(stem, (3, 3), padding=(1, 1), count_include_pad=True)
        mixed = relay.concatenate(
            [
                conv(stem, "a", width, channels, 1),
                conv(conv(stem, "b", width, 24, 1), "bb", 24, 2 * channels, 3),
                conv(pooled, "c", width, channels, 1),
            ],
            axis=1,
        )
        width = 4 * channels
    fire = relay.concatenate(
        [conv(mixed, "d", width, channels, 1), conv(mixed, "e", width, 32, 3)],
        axis=1,
    )
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(fire))
    body = relay.nn.dense(flat, weight("dense", (10, channels + 32), 0.2))
    free = [var for var in relay.analysis.free_vars(body) if var.name_hint != "data"]
    module = tvm.IRModule.from_expr(relay.Function([data, *free], body))
    return relay.transform.InferType()(module), params


def image(batch=1):
    return np.random.default_rng(1).normal(0, 1, (batch, 3, 20, 20)).astype("float32")


@cache
def exact_output(batch=1):
    """What the network gives in float64."""
    module, params = network(batch=batch, dtype="float64")
    with cached_libinfo(), tvm.transform.PassContext(opt_level=1):
        factory = relay.build(module, target=TARGET, params=params)
    return stock_outputs(factory, data=image(batch).astype("float64"))[0]


def error_of(actual, batch=1):
    """In parts of the largest output."""
    exact = exact_output(batch)
    return np.abs(actual - exact).max() / np.abs(exact).max()


@cache
def converted_network(conversion):
    return prepare(*network(), TARGET, conversion=conversion)


@cache
def gpu_network(conversion, batch):
    return prepare(*network(batch=batch, inception=False), GPU, conversion=conversion)


CONVERSIONS = [
    # Others convert types, too.
    pytest.param(each, id=each.as_text(), marks=pytest.mark.full if each is HALF else ())
    for each in TOLERANCES
]


@pytest.mark.slow
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_results_are_near_those_of_float64(nets, conversion):
    converted = converted_network(conversion)
    main = converted.module["main"]
    assert [str(var.checked_type) for var in main.params] == ["Tensor[(1, 3, 20, 20), float32]"]
    assert str(main.ret_type) == "Tensor[(1, 10), float32]"
    (actual,) = nets.run(build(converted.module, TARGET).factory, image())
    assert actual.dtype == "float32"
    assert error_of(actual) < TOLERANCES[conversion]
    assert conversion is NHWC or error_of(actual) > 1e-6


@pytest.mark.slow(1)
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_nothing_of_weights_is_computed_at_run_time(conversion):
    converted = converted_network(conversion)
    assert not converted.params
    assert converted.notes == (f"the model was converted: {conversion.as_text()}",)
    kinds = [operator.kind for operator in extract(converted.module).graph.operators]
    assert kinds.count("layout_transform") <= 1
    assert kinds.count("cast") <= 2


@pytest.mark.slow(1)
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_facts_of_operators_know_layout_and_type(conversion):
    graph = extract(converted_network(conversion).module).graph
    found = [operator for operator in graph.operators if operator.convolution is not None]
    assert len(found) == 7
    (inner,) = [o for o in found if o.convolution.input_shape == (24, 10, 10)]
    assert (inner.convolution.out_channels, inner.convolution.kernel) == (32, (3, 3))
    assert inner.flops == 3200 * (2 * 24 * 9 + 2)
    element_bytes = 2 if conversion.mixed_precision else 4
    assert inner.memory_bytes == element_bytes * (2400 + 24 * 9 * 32 + 32 + 3200)


@pytest.mark.slow
@pytest.mark.parametrize(
    "conversion",
    [NHWC, HALF_NHWC, *(pytest.param(each, marks=pytest.mark.full) for each in (HALF, HALF_SUMS))],
    ids=Conversion.as_text,
)
def test_merged_convolutions_are_right(nets, conversion):
    extraction = extract(converted_network(conversion).module)
    partitioned = rewrite(extraction.module, merged(extraction))
    staged = build(partitioned, TARGET)
    (actual,) = nets.run(staged.factory, image())
    assert error_of(actual) < TOLERANCES[conversion]
    plan = lower_plan(staged.graph, staged.placements, lanes=2)
    verify_plan(plan)
    assert not any("slice" in name or name == "concatenate_1" for name in staged.operator_names)


def merged(extraction):
    """Sequential order, but the two convolutions of the fire module merged."""
    members = extraction.joins[
        max(index for index, joined in enumerate(extraction.joins) if joined)
    ]
    plain = sequential_schedule(extraction.graph)
    stages = [
        replace(stage, groups=tuple((index,) for index in members), strategy=Strategy.MERGE)
        if stage.operators == members[:1]
        else stage
        for stage in plain.stages
        if stage.operators != members[1:]
    ]
    return replace(plain, stages=tuple(stages))


@pytest.mark.slow
def test_a_model_that_is_converted_first_comes_out_the_same():
    mod, params = converted_model(*network(), TARGET, HALF_NHWC)
    assert params is None
    tvm.ir.assert_structural_equal(
        prepare(mod, params, TARGET).module, converted_network(HALF_NHWC).module
    )


@pytest.mark.slow(1)
def test_a_concatenation_of_the_last_axis_is_no_view():
    extraction = extract(converted_network(NHWC).module)
    joined = [index for index, joined in enumerate(extraction.joins) if joined]
    assert len(joined) == 2
    assert [extraction.views[index] for index in joined] == [None, None]


def test_tvm_does_not_warn_of_operators_that_follow(capfd):
    data = relay.var("data", shape=(1, 8, 8, 8))
    weight = relay.const(np.ones((8, 8, 1, 1), "float32"))
    conv = relay.nn.conv2d(data, weight, kernel_size=(1, 1), channels=8)
    resized = relay.image.resize2d(conv, (4, 4), layout="NCHW")
    module = tvm.IRModule.from_expr(relay.Function([data], resized))
    found = str(converted_model(module, {}, TARGET, NHWC)[0])
    assert 'layout="NHWC"' in found[found.index("resize2d") :]
    assert relay.op.get("image.resize2d").get_attr(CONVERT_LAYOUT) is not None
    assert capfd.readouterr().err == ""


@pytest.mark.slow(1)
def test_the_operators_of_tvm_are_left_as_they_were():
    converted_network(HALF_NHWC)
    rules = [relay.op.get(name).get_attr(CONVERSION_TYPE) for name in DEFAULT_ALWAYS_LIST]
    data = relay.var("data", shape=(1, 4))
    call = relay.nn.dense(data, relay.var("weight", shape=(4, 4)))
    assert [list(map(str, rule(call, "float16")))[1:] for rule in rules] == [
        ["float16", "float16"]
    ] * len(DEFAULT_ALWAYS_LIST)


IN_HALF = {
    "nn.conv1d": ((1, 512, 6), (4, 512, 3)),
    "nn.conv3d": ((1, 64, 5, 5, 5), (4, 64, 3, 3, 3)),
    "nn.conv1d_transpose": ((1, 512, 6), (512, 4, 3)),
    "nn.conv2d_transpose": ((1, 256, 5, 5), (256, 4, 3, 3)),
    "nn.conv3d_transpose": ((1, 64, 4, 4, 4), (64, 4, 3, 3, 3)),
}


@pytest.mark.parametrize("name", IN_HALF)
@pytest.mark.slow
def test_sums_of_all_convolutions_are_taken_in_float32(name):
    of_data, of_weight = IN_HALF[name]
    random = np.random.default_rng(0)
    data = relay.var("data", shape=of_data)
    weight = random.uniform(0, 1, of_weight).astype("float32")
    make = getattr(relay.nn, name.removeprefix("nn."))
    call = make(data, relay.const(weight), channels=4, kernel_size=of_weight[2:])
    module = tvm.IRModule.from_expr(relay.Function([data], call))
    given = random.uniform(0, 1, of_data).astype("float32")

    def output(conversion):
        changed, _ = converted_model(module, None, tvm.target.Target(TARGET), conversion)
        with tvm_pipeline():
            return stock_outputs(relay.build(changed, TARGET), data=given)[0]

    # Values are rounded once each, and so is the sum: in float16 it would lose half of its digits.
    np.testing.assert_allclose(output(HALF), output(Conversion()), rtol=1e-3)


@pytest.mark.parametrize("batch", [8, 16])
def test_what_tvm_would_round_without_a_word_is_refused(batch):
    module, params = network(batch=batch)
    with pytest.raises(
        OptionError, match=f"float32 NHWC convolution of batch {batch} and .* float16"
    ):
        prepare(module, params, GPU, conversion=NHWC)


@pytest.mark.slow
@needs_nvcc
def test_a_model_that_was_nhwc_before_is_refused_as_well():
    data = relay.var("data", shape=(16, 8, 8, 16))
    weight = relay.const(np.ones((3, 3, 16, 32), "float32"))
    body = relay.nn.conv2d(
        data, weight, padding=(1, 1), channels=32, data_layout="NHWC", kernel_layout="HWIO"
    )
    module = tvm.IRModule.from_expr(relay.Function([data], body))
    with pytest.raises(OptionError, match=r"conv2d rounds float32 to float16.*'NCHW'"):
        build(prepare(module, None, GPU).module, GPU)
    as_nchw = Conversion(desired_layout="NCHW")
    build(prepare(module, None, GPU, conversion=as_nchw).module, GPU)


def test_grouped_convolutions_have_no_nhwc_kernel():
    data = relay.var("data", shape=(1, 16, 8, 8))
    body = relay.nn.conv2d(
        data, relay.const(np.ones((16, 8, 1, 1), "float32")), groups=2, channels=16
    )
    module = tvm.IRModule.from_expr(relay.Function([data], body))
    with pytest.raises(OptionError, match="16 channels in 2 groups has no NHWC kernel for GPUs"):
        prepare(module, None, GPU, conversion=NHWC)


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize(
    ("conversion", "batch"),
    [
        pytest.param(NHWC, 1, marks=pytest.mark.full),
        pytest.param(HALF, 16, marks=pytest.mark.full),
        pytest.param(HALF_NHWC, 1, marks=pytest.mark.full),
        (HALF_NHWC, 16),
        pytest.param(HALF_SUMS, 1, marks=pytest.mark.full),
    ],
)
def test_kernels_for_gpus_compile_and_export(tmp_path, conversion, batch):
    converted = gpu_network(conversion, batch)
    extraction = extract(converted.module)
    staged = build(rewrite(extraction.module, merged(extraction)), GPU)
    staged.factory.get_lib().export_library(str(tmp_path / "kernels.so"))
    verify_plan(lower_plan(staged.graph, staged.placements, lanes=2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conversion", "batch"),
    [
        pytest.param(NHWC, 1, marks=pytest.mark.full),
        pytest.param(HALF, 16, marks=pytest.mark.full),
        (HALF_NHWC, 1),
        (HALF_NHWC, 16),
        (HALF_SUMS, 1),
    ],
)
def test_tensor_cores_compute_batches_of_half_precision(conversion, batch):
    extraction = extract(gpu_network(conversion, batch).module)
    flat = extract(flatten(rewrite(extraction.module, merged(extraction))).module)
    with tvm_pipeline():
        convolutions = [
            kernel
            for _, kernel in lower_kernels(flat.calls, tvm.target.Target(GPU))
            if "conv2d" in kernel.stem
        ]
    on_tensor_cores = ["wmma" in kernel.function.script() for kernel in convolutions]
    assert len(convolutions) == 2
    assert any(on_tensor_cores) == (conversion is HALF_NHWC and batch == 16)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("conversion", "batch"),
    [(NHWC, 1), (HALF, 1), (HALF_NHWC, 1), (HALF_NHWC, 16), (HALF_SUMS, 16)],
)
def test_results_on_a_gpu_are_near_those_of_float64(conversion, batch):
    if not tvm.cuda().exist:
        pytest.skip("there is no GPU, or no driver of it")
    module, params = network(batch=batch)
    extraction = extract(prepare(module, params, "cuda", conversion=conversion).module)
    for schedule in (None, merged(extraction)):
        model = tvm_ios.compile_schedule(
            module,
            params,
            "cuda",
            schedule=schedule,
            options=tvm_ios.TuneOptions(conversion=conversion),
        )
        with model.executor() as executor:
            executor.run(data=image(batch))
            assert error_of(executor.get_output(0).numpy(), batch) < TOLERANCES[conversion]
