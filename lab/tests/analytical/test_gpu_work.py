"""Work of kernels, from operators of models and from recorded rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import operator_graphs
from tests.operator_graphs import op
from tvm_ios.errors import ScheduleError
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.gpu_kernel import kernel_time
from tvm_ios_lab.analytical.gpu_work import copy_work, merged_work, operator_work, recorded_work
from tvm_ios_lab.problems.synthetic import PrimitiveWork

POINTWISE = replace(operator_graphs.CONV, input_shape=(16, 10, 10), out_channels=8)
CONV = replace(POINTWISE, kernel=(3, 3), padding=(1, 1, 1, 1), out_channels=32)


def operator(kind="conv2d", **fields):
    return op("o", kind=kind, **fields)


@pytest.mark.parametrize("images", [1, 4])
def test_a_convolution_of_a_model(images):
    outputs = images * 32 * 100
    weights = 4 * 32 * 144
    (work,) = operator_work(
        operator(
            flops=outputs * (2 * 144 + 2),
            memory_bytes=4 * (images * 1600 + outputs) + weights,
            output_elements=outputs,
            convolution=CONV,
        )
    )
    assert (work.matrix_product, work.rows, work.columns) == (True, 100 * images, 32)
    assert work.depth == 145  # the epilogue is two operations an output
    assert work.weight_bytes == weights
    assert work.activation_bytes == 4 * (images * 1600 + outputs)
    assert work.flops == 2 * outputs * 145


def test_a_dense_layer_of_unknown_shape():
    rows, columns, depth = 12, 1000, 2048
    memory_bytes = 4 * (rows * depth + columns * depth + rows * columns)
    (work,) = operator_work(
        operator(
            "dense",
            flops=2 * rows * columns * depth,
            memory_bytes=memory_bytes,
            output_elements=rows * columns,
        )
    )
    assert {work.rows, work.columns} == {12, 1000}
    assert work.weight_bytes + work.activation_bytes == memory_bytes


@pytest.mark.parametrize(
    ("kind", "convolution"),
    [("depthwise_conv2d", None), ("max_pool2d", None), ("conv2d", replace(CONV, groups=16))],
)
def test_what_computes_every_output_by_itself_is_a_stream(kind, convolution):
    (work,) = operator_work(
        operator(
            "depthwise_conv2d" if convolution else kind,
            flops=3200 * 18,
            memory_bytes=50_000,
            output_elements=3200,
            convolution=convolution,
        )
    )
    assert (work.matrix_product, work.rows, work.columns, work.depth) == (False, 3200, 1, 9)
    assert work.activation_bytes == 50_000


def test_a_view_has_no_kernel():
    assert operator_work(operator("concatenate", output_elements=9, view=True)) == ()


def test_an_operator_nobody_measured_still_has_a_kernel():
    (work,) = operator_work(operator("mystery"))
    assert (work.outputs, work.flops) == (1, 0)


def test_a_product_that_nobody_counted_is_a_stream():
    (work,) = operator_work(operator("dense", output_elements=9, memory_bytes=72))
    assert not work.matrix_product
    assert kernel_time(work, GPU.by_name("h100")).busy_ns > 0


def test_a_merge_computes_padded_kernels():
    wide, narrow = (
        recorded_work([PrimitiveWork(100 * c.out_channels, 100 * c.out_channels, 1)], c)[0]
        for c in (CONV, POINTWISE)
    )
    merged = merged_work([CONV, POINTWISE], [wide, narrow])
    assert (merged.rows, merged.columns, merged.depth) == (100, 40, 16 * 9)
    assert merged.weight_bytes == 4 * 40 * 144
    assert merged.activation_bytes == 4 * (1600 + 4000)  # the operand is read once
    assert merged.flops > wide.flops + narrow.flops
    with pytest.raises(ScheduleError, match="cannot be merged"):
        merged_work([CONV, replace(CONV, strides=(2, 2))], [wide, wide])


def test_a_recorded_convolution():
    rows = [PrimitiveWork(3200 * 145, 3200, 1)]
    (work,) = recorded_work(rows, CONV)
    assert (work.rows, work.columns, work.depth) == (100, 32, 144)
    assert (work.activation_bytes, work.weight_bytes) == (4 * (1600 + 3200), 4 * 32 * 144)


def test_a_recorded_convolution_of_a_sum():
    rows = [PrimitiveWork(3200 * 145 + 2 * 1600, 3200, 2)]
    total, work = recorded_work(rows, replace(CONV, plain_operand=False))
    assert not total.matrix_product
    assert total.activation_bytes == 4 * 3 * 1600
    assert work.matrix_product


def test_a_recorded_separable_convolution():
    # Sum of three, rectifier; depthwise 3 x 3; pointwise from 8 to 16 channels, 10 x 10 pixels.
    rows = [
        PrimitiveWork(4 * 800, 800, 2),
        PrimitiveWork(10 * 800, 800, 1),
        PrimitiveWork(9 * 1600, 1600, 1),
    ]
    total, rectifier, depthwise, pointwise = recorded_work(rows, None)
    assert total == rectifier
    assert total.activation_bytes == 4 * (1600 + 800)
    assert not depthwise.matrix_product
    assert depthwise.activation_bytes == 4 * (800 + 800)
    assert depthwise.depth == 9
    assert pointwise.matrix_product
    assert (pointwise.rows, pointwise.columns, pointwise.depth) == (100, 16, 8)


@pytest.mark.parametrize("outputs", [50, 200])
def test_a_row_without_work_is_no_convolution(outputs):
    _, nothing = recorded_work([PrimitiveWork(100, 100, 1), PrimitiveWork(0, outputs, 1)], None)
    assert not nothing.matrix_product
    assert (nothing.outputs, nothing.flops) == (outputs, 0)


def test_a_recorded_pointwise_convolution_with_stride_two():
    rows = [PrimitiveWork(8 * 121, 8 * 121, 1), PrimitiveWork(9 * 24 * 36, 24 * 36, 1)]
    _, pointwise = recorded_work(rows, None)
    assert (pointwise.rows, pointwise.columns, pointwise.depth) == (36, 24, 8)


def test_a_recorded_pooling_reads_its_input_once():
    (work,) = recorded_work([PrimitiveWork(9 * 500, 500, 1)], None)
    assert (work.activation_bytes, work.depth) == (4 * 1000, 4.5)


def test_a_row_without_kernels_is_nothing():
    assert recorded_work([PrimitiveWork(0, 500, 0)], None) == ()
    assert recorded_work([], None) == ()


def test_a_copy_reads_and_writes():
    (work,) = recorded_work([PrimitiveWork(3200 * 145, 3200, 1)], CONV)
    assert copy_work(work).activation_bytes == 2 * 4 * 3200
