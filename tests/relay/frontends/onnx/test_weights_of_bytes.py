"""ONNX models whose weights alone are quantised: products of few rows read them as bytes."""

from __future__ import annotations

from tests.onnx import weights_of_bytes
from tests.onnx.cases import cases
from tests.onnx.weights_of_bytes import CASES
from tests.relay.frontends.onnx.one_input import read
from tests.stock import stock_outputs
from tvm_ios.relay import build
from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.prepare import prepare

TARGET = "llvm -mcpu=core-avx2"


def assert_bytes_compute(case, *, count=1):
    """So many of a model's weights are bytes, and its result is what the case says."""
    prepared = prepare(read(case.model, case.shape), {}, TARGET)
    types = [
        str(parameter.checked_type.dtype)
        for call in kernel_calls(prepared.module["main"].body)
        for parameter in call.op.params
    ]
    assert types.count("int8") == count
    built = build(prepared.module, prepared.target, {})
    case.assert_computed(lambda x: stock_outputs(built.factory, x=x)[0])


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
