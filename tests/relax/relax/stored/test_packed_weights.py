"""Weights of products on few rows that stay bytes in memory, in Relax."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_ios
from tests.onnx import weights_of_bytes
from tests.onnx.cases import cases
from tests.onnx.weights_of_bytes import CASES
from tests.relax.driver.test_tune import OPTIONS
from tests.relax.networks import Network
from tests.whole_weights import steps_of_weights
from tvm_ios.compile.built_model import build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.driver.model_source import from_onnx
from tvm_ios.relax.extract import kernel_of
from tvm_ios.relax.prepare import prepare, with_low_precision
from tvm_ios.relax.schedules.packed import PACKED
from tvm_ios.relax.stored.bfloat16 import low_values
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.support.exact_bits import exact_bits

AVX2, AVX512 = ({"kind": "llvm", "mcpu": each} for each in ("core-avx2", "skylake-avx512"))
SHAPE = (512, 144)


def packed(prepared):
    """Attributes of the kernels that read packed weights."""
    line, module = prepared.extraction.line, prepared.extraction.module
    kernels = [kernel_of(module, call) for call in line.calls]
    return [dict(each.attrs[PACKED]) for each in kernels if PACKED in each.attrs]


def ran(prepared, **values):
    model = build_prepared(prepared)
    compiled = lower_schedule(model, greedy_schedule(model.graph), lanes=2)
    with compiled.executor(options=LaneOptions(oversubscribe=True)) as executor:
        executor.run(**values)
        return executor.get_output(0).numpy()


def assert_bytes_compute(case, *, count=1):
    """So many of a model's products read bytes, and its result is what the case says."""
    module, _ = from_onnx(case.model, {"x": case.shape})
    prepared = prepare(module, None, AVX2)
    assert len(packed(prepared)) == count
    case.assert_computed(lambda x: ran(prepared, x=x))


@pytest.mark.slow(1)
@cases(**CASES["dequantised"])
def test_constants_that_are_dequantised(spread, zero, dtype, product):
    assert_bytes_compute(weights_of_bytes.dequantised(spread, zero, dtype, product))


@cases(**CASES["of_few_bits"])
def test_products_by_weights_of_a_few_bits(bits, zeros):
    assert_bytes_compute(weights_of_bytes.of_few_bits(bits, zeros))


def test_columns_that_scale_the_data_stay_out_of_the_weights():
    assert_bytes_compute(weights_of_bytes.of_scaled_data())


def test_more_rows_are_multiplied_in_float32():
    assert_bytes_compute(weights_of_bytes.on_many_rows(), count=0)


def layer(rows, weights, steps=relax.op.sigmoid):
    """Product of rows by weights (outputs, inputs), a bias, and what follows."""

    def body(net):
        product = net.emit(relax.op.matmul(net.x, relax.const(weights.T.copy())))
        biased = net.emit(relax.op.add(product, relax.const(bias(len(weights)))))
        return net.emit(steps(biased))

    net = Network(*rows, weights.shape[1])
    return net.build(body), net.value()


def bias(outputs):
    return np.linspace(-1, 1, outputs, dtype="float32")


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(
    ("rows", "shape", "block"),
    [
        ((1,), (515, 144), 0),
        ((2, 3), (515, 130), 32),
        ((16,), (333, 260), 16),
        ((1, 13, 1), SHAPE, 64),
    ],
    ids=str,
)
def test_shapes_that_fill_no_tile(rows, shape, block, target):
    weights = steps_of_weights(*shape, block=block)
    mod, value = layer(rows, weights)
    prepared = prepare(mod, None, target)
    (told,) = packed(prepared)
    assert told["block"] == (block or shape[1])
    wanted = 1 / (1 + np.exp(-(value @ weights.T.astype("float64") + bias(shape[0]))))
    np.testing.assert_allclose(ran(prepared, x=value), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        (17, steps_of_weights(*SHAPE)),
        (3, steps_of_weights(64, 64)),
        (3, np.random.default_rng(0).standard_normal(SHAPE, "float32")),
    ],
    ids=["many rows", "few weights", "no steps"],
)
def test_others_stay(rows, weights):
    assert not packed(prepare(layer((rows,), weights)[0], None, AVX2))


def test_exact_bits_have_layers_of_float32():
    with exact_bits(True):
        assert not packed(prepare(layer((3,), steps_of_weights(*SHAPE))[0], None, AVX2))


def test_an_operator_that_is_no_step_comes_behind():
    mod, value = layer((3,), steps_of_weights(*SHAPE), relax.op.nn.softmax)
    prepared = prepare(mod, None, AVX2)
    assert len(packed(prepared)) == 1
    np.testing.assert_allclose(ran(prepared, x=value).sum(axis=1), 1, rtol=1e-5)


def test_graphs_tell_of_bytes():
    (operator,) = prepare(
        layer((3,), steps_of_weights(*SHAPE))[0], None, AVX2
    ).extraction.graph.operators
    size = SHAPE[0] * SHAPE[1]
    assert operator.kind.startswith("matmul")
    assert operator.flops >= 2 * 3 * size
    assert size < operator.memory_bytes < 2 * size
    assert not operator.whole  # it computes in float32


def test_such_layers_stay_in_float32_beside_bfloat16():
    weights = steps_of_weights(*SHAPE)

    def body(net):
        made = net.x
        for each in (net.constant(*SHAPE), relax.const(weights.T.copy()), net.constant(*SHAPE)):
            made = net.emit(relax.op.matmul(made, each))
        return made

    net = Network(3, SHAPE[0])
    prepared = prepare(net.build(body), None, AVX2)
    low = low_values(prepared.extraction).most()
    assert (low.results, low.weights) == ((), (0, 2))
    value = net.value()
    exact, found = ran(prepared, x=value), ran(with_low_precision(prepared, low), x=value)
    assert np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.slow(5)
def test_tune_keeps_bytes_in_the_file(tmp_path):
    weights = steps_of_weights(*SHAPE)
    mod, value = layer((3,), weights)
    model = tvm_ios.tune(mod, None, options=OPTIONS, lanes=1, database=tmp_path / "db")
    model.export_library(tmp_path / "net.so")
    assert (tmp_path / "net.so").stat().st_size < 3 * weights.size
    with tvm_ios.load(tmp_path / "net.so") as executor:
        executor.run(x=value)
        found = executor.get_output(0).numpy()
    wanted = 1 / (1 + np.exp(-(value @ weights.T.astype("float64") + bias(SHAPE[0]))))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def rows_of(weights):
    """Rows of a table at places that are an input."""
    places = relax.Var("i", relax.TensorType((5,), "int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [places]):
        with builder.dataflow():
            made = builder.emit_output(relax.op.take(relax.const(weights), places, axis=0))
        builder.emit_func_output(made)
    return prepare(builder.finalize(), None, AVX2)


@pytest.mark.parametrize("least", [-127, -200, 0])
def test_rows_of_a_table_are_read_as_bytes(least):
    weights = steps_of_weights(1, 512 * 144, least=least).reshape(SHAPE)
    places = np.array([3, 0, 511, 77, 3])
    prepared = rows_of(weights)
    assert _types(prepared) == {"uint8", "int64"}
    np.testing.assert_allclose(ran(prepared, i=places), weights[places], rtol=1e-5)


def test_tables_of_other_numbers_stay():
    weights = np.random.default_rng(0).standard_normal(SHAPE, "float32")
    assert _types(rows_of(weights)) == {"float32", "int64"}


def _types(prepared):
    (call,) = prepared.extraction.line.calls
    return {str(each.ty.dtype) for each in call.call.args[1].fields}
