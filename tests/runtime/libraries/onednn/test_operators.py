"""Every kind of operator by oneDNN, whole and in parts, against TVM in float64."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import product

import numpy as np
import pytest
from tvm import relay

from tests.runtime.libraries.onednn import networks as n
from tests.runtime.libraries.onednn.prepared import cut_every_call, prepared
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, StepKind
from tvm_ios.support.stored_value import parse_json

TOLERANCE = 1e-5
"""Of the largest number: float32 sums of a few hundred products, in any order."""
ROUNDED = 2**-7
"""The same where results are bfloat16: some are rounded once more, before steps or scaling."""
LOW = {
    "all": n.Low({"data", "weights", "result"}),
    "operands": n.Low({"data", "weights"}),
    "weights": n.Low({"weights"}),
    "data": n.Low({"data"}),
    "data and result": n.Low({"data", "result"}),
    "weights and result": n.Low({"weights", "result"}),
}
"""What lies in memory as bfloat16. Numbers are exact in it, so only results are rounded."""
OPERATORS = {
    "3x3": n.after(lambda y, _: relay.nn.relu(y)),
    "1x1": partial(n.biased, kernel=1, padding=(0, 0)),
    "without bias": partial(n.convolution, padding=(1, 1)),
    "first layer": partial(n.biased, shape=(1, 3, 32, 32), channels=32, strides=(2, 2)),
    "uneven padding": partial(n.biased, padding=(0, 1, 2, 0), strides=(2, 1)),
    "dilated": partial(n.biased, padding=(2, 2), dilation=(2, 2)),
    "three images": partial(n.biased, shape=(3, 32, 14, 14)),
    "depthwise": partial(n.biased, channels=32, groups=32),
    "depthwise, strided": partial(n.biased, channels=32, groups=32, strides=(2, 2)),
    "grouped": partial(n.biased, shape=(1, 64, 14, 14), groups=4),
    "NHWC": partial(n.convolution, shape=(1, 14, 14, 32), layout="NHWC", padding=(1, 1)),
    "NHWC, depthwise": partial(
        n.convolution, shape=(1, 14, 14, 32), layout="NHWC", channels=32, groups=32, padding=(1, 1)
    ),
    "transposed": n.transposed,
    "transposed, NHWC": n.transposed_rows,
    "transposed, NHWC, overlapping": partial(
        n.transposed_rows, kernel=3, padding=(1, 1), output_padding=(1, 1)
    ),
    "3x3x3": partial(n.clips, padding=(1, 1, 1)),
    "3x3x3, residual": partial(n.clips, padding=(1, 1, 1), step=n.residual),
    "3x3x3, residual of part of a block": partial(
        n.clips, channels=20, padding=(1, 1, 1), step=n.residual
    ),
    "1x1x1, strided": partial(n.clips, kernel=(1, 1, 1), strides=(2, 2, 2)),
    "1x3x3": partial(n.clips, kernel=(1, 3, 3), padding=(0, 1, 1), strides=(1, 2, 2)),
    "3x1x1": partial(n.clips, kernel=(3, 1, 1), padding=(1, 0, 0), step=n.rectified),
    "first layer of clips": partial(
        n.clips, shape=(1, 3, 4, 16, 16), kernel=(3, 7, 7), padding=(1, 3, 3), strides=(1, 2, 2)
    ),
    "uneven padding of clips": partial(n.clips, padding=(0, 1, 2, 2, 0, 1), strides=(2, 1, 2)),
    "dilated, clips": partial(n.clips, padding=(2, 2, 1), dilation=(2, 2, 1)),
    "two clips": partial(n.clips, shape=(2, 32, 3, 7, 7), padding=(1, 1, 1)),
    "grouped, clips": partial(n.clips, channels=64, groups=2, padding=(1, 1, 1)),
    "NDHWC": partial(
        n.clips, shape=(1, 5, 9, 8, 32), layout="NDHWC", padding=(1, 1, 1), step=n.rectified
    ),
    "dense of a row": partial(n.dense, rows=1, columns=96),
    "dense": partial(n.dense, rows=5, columns=64),
    "dense of blocks of 30": partial(n.dense, rows=9, columns=120, depth=35),
    "dense of blocks of 25": partial(n.dense, rows=1, columns=1000, depth=70),
    "dense of a prime number": partial(n.dense, rows=64, columns=37, depth=17),
    "dense of odd depth": partial(n.dense, rows=33, columns=96, depth=45),
    "matrices": partial(n.matrices, transposed=False),
    "transposed matrices": partial(n.matrices, transposed=True),
    "max pooling": partial(n.pooled_blocks, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)),
    "max pooling, uneven padding": partial(
        n.pooled_blocks, block=8, pool_size=(2, 3), strides=(2, 1), padding=(0, 2, 1, 0)
    ),
    "max pooling, rounded up": partial(
        n.pooled_blocks, pool_size=(2, 2), strides=(2, 2), ceil_mode=True
    ),
    "max pooling of NCHW": partial(n.pooled, pool_size=(3, 3), strides=(2, 2)),
    "max pooling of NHWC": partial(
        n.pooled, shape=(2, 9, 11, 20), layout="NHWC", pool_size=(3, 3), strides=(2, 2)
    ),
    "average pooling": partial(
        n.pooled_blocks, kind="avg_pool2d", pool_size=(3, 3), padding=(1, 1)
    ),
    "average pooling, zeros count": partial(
        n.pooled_blocks,
        kind="avg_pool2d",
        pool_size=(3, 3),
        padding=(1, 2, 0, 1),
        count_include_pad=True,
    ),
    "average pooling, rounded up": partial(
        n.pooled_blocks, kind="avg_pool2d", pool_size=(3, 3), strides=(2, 2), ceil_mode=True
    ),
    "average pooling of NCHW": partial(
        n.pooled, kind="avg_pool2d", shape=(1, 24, 14, 14), pool_size=(3, 3), padding=(1, 1)
    ),
    "global average": partial(n.pooled_blocks, kind="global_avg_pool2d"),
    "global average of NCHW": partial(n.pooled, kind="global_avg_pool2d", shape=(2, 20, 7, 9)),
    "global average of NHWC": partial(
        n.pooled, kind="global_avg_pool2d", shape=(1, 7, 7, 40), layout="NHWC"
    ),
    "adaptive average": partial(n.pooled, kind="adaptive_avg_pool2d", output_size=(1, 1)),
    "pooling and more": n.pooled_and_more,
    "pooling, doubled": n.pooled_twice,
    "softmax": n.softmax,
    "softmax of a matrix": partial(n.softmax, shape=(7, 100), axis=1),
}
STEPS = {
    "residual": (n.residual, (StepKind.ADD, StepKind.RELU)),
    "doubled": (lambda y, _: relay.add(y, y), (StepKind.LINEAR,)),
    "clip": (lambda y, _: relay.clip(y, 0.0, 6.0), (StepKind.CLIP,)),
    "leaky": (lambda y, _: relay.nn.leaky_relu(y, alpha=0.1), (StepKind.RELU,)),
    "sigmoid": (lambda y, _: relay.sigmoid(y), (StepKind.SIGMOID,)),
    "tanh": (lambda y, _: relay.tanh(y), (StepKind.TANH,)),
    "swish": (lambda y, _: y * relay.sigmoid(y), (StepKind.SWISH,)),
    "hard swish": (n.hard_swish, (StepKind.HARD_SWISH,)),
    "hard sigmoid": (
        lambda y, d: relay.clip(y + n.constant(0.5, d), 0.0, 1.0),
        (StepKind.LINEAR, StepKind.CLIP),
    ),
    "gelu": (n.gelu, (StepKind.GELU,)),
    "gelu of halves": (n.gelu_of_halves, (StepKind.GELU,)),
    "gelu of tanh": (n.tanh_gelu, (StepKind.GELU_TANH,)),
    "fast gelu": (n.fast_gelu, (StepKind.GELU_TANH,)),
    "mish": (n.mish, (StepKind.MISH,)),
    "scaled swish": (
        lambda y, d: relay.sigmoid(y) * (y * n.constant(3.0, d)),
        (StepKind.SWISH, StepKind.LINEAR),
    ),
    "scale": (n.scaled, (StepKind.RELU, StepKind.MULTIPLY, StepKind.LINEAR)),
}
WITH_STEPS = {name: n.after(step) for name, (step, _) in STEPS.items()}


ALIKE = {
    *("1x1", "depthwise, strided", "transposed, NHWC", "3x1x1", "two clips", "grouped, clips"),
    *("dense of blocks of 25", "matrices", "max pooling of NCHW", "average pooling of NCHW"),
    *("global average of NCHW", "pooling, doubled", "softmax of a matrix", "three images"),
    *("uneven padding of clips", "dilated, clips", "1x3x3", "dense of blocks of 30"),
}
"""Operators that take the way of another one, which is tested in each run."""


STEPS_ALIKE = {"doubled", "clip", "swish"}
"""Steps that are parts of others, such as "scaled swish"."""


@pytest.fixture
def whole_calls(monkeypatch):
    """Calls are whole: their cuts are not searched for, nor whether oneDNN refuses them."""
    cut_every_call(monkeypatch, "1x1x1")


@pytest.mark.usefixtures("whole_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in ALIKE else name for name in OPERATORS],
)
def test_operators_are_right(onednn, name):
    seen = n.computed(OPERATORS[name], lanes=2)
    assert len(seen.calls) == 1, "oneDNN computes it"
    assert seen.error < TOLERANCE


MOSTLY_ALL = pytest.mark.parametrize(
    "low", ["all", pytest.param("operands", marks=pytest.mark.full)]
)


IN_BFLOAT16 = {
    *("3x3", "depthwise", "NHWC", "transposed", "3x3x3, residual", "dense of odd depth"),
    *("transposed matrices", "max pooling", "max pooling, uneven padding", "average pooling"),
    *("global average", "softmax", "gelu"),
}
"""One of each kind: types change neither windows nor, within oneDNN, steps."""


def mostly_full(name: str) -> object:
    """An operator, or a step, as a case."""
    return name if name in IN_BFLOAT16 else pytest.param(name, marks=pytest.mark.full)


def has_bfloat16(onednn) -> bool:
    """True where oneDNN computes in bfloat16; elsewhere it may refuse to, and TVM's kernels do."""
    return "bf16" in onednn.facts.isa or "amx" in onednn.facts.isa


def require_bfloat16(onednn) -> None:
    if not has_bfloat16(onednn):
        pytest.skip(f"oneDNN need not have bfloat16 for {onednn.facts.isa}")


def assert_right_in_bfloat16(seen: n.Computed, low: n.Low) -> None:
    assert seen.error < (ROUNDED if "result" in low else TOLERANCE)
    for call in seen.calls:
        wanted = ["bfloat16" if part in low else "float32" for part in ("data", "result")]
        assert [call.data.dtype, call.result.dtype] == wanted
        if call.weight is not None and call.weight.constant:
            assert (call.weight.dtype == "bfloat16") == ("weights" in low)
        again = OnednnCall.from_data(parse_json(json.dumps(call.to_data()), "the call"))
        assert again == call


@pytest.mark.slow(2)
@MOSTLY_ALL
@pytest.mark.parametrize("name", [*map(mostly_full, (*OPERATORS, *WITH_STEPS))])
def test_operators_are_right_in_bfloat16(onednn, name, low):
    seen = n.computed((OPERATORS | WITH_STEPS)[name], lanes=2, low=LOW[low])
    assert_right_in_bfloat16(seen, LOW[low])
    # Its code for blocks of channels reads 16 of bfloat16.
    if has_bfloat16(onednn) and name != "max pooling, uneven padding":
        assert len(seen.calls) == 1, "oneDNN computes it"


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("name", "low"),
    [
        *product(("3x3",), [each for each in LOW if each != "all"]),
        *product(("NHWC", "dense"), ("data", "weights and result")),
        *(("depthwise", "data"), ("transposed", "weights and result")),
        *(("3x3x3, residual", "weights and result"), ("global average", "data")),
        *(
            pytest.param(name, low, marks=pytest.mark.full)
            for name, low in (
                *product(("NHWC", "dense"), ("operands", "weights", "data and result")),
                *(("depthwise", "weights and result"), ("transposed", "data")),
                ("3x3x3, residual", "data"),
            )
        ),
    ],
)
def test_operators_of_mixed_types_are_right(onednn, name, low):
    assert_right_in_bfloat16(n.computed(OPERATORS[name], lanes=2, low=LOW[low]), LOW[low])


PACKED = {
    columns: partial(n.dense, rows=21, columns=columns, depth=19)
    for columns in (37, 90, 96, 98, 250)
}


@pytest.mark.slow(3)
@MOSTLY_ALL
@pytest.mark.parametrize("columns", [37, pytest.param(96, marks=pytest.mark.full), 250])
@pytest.mark.parametrize("counts", ["1x1x1", "1x2x1", "3x1x1"])
def test_packed_weights_of_bfloat16_are_unpacked_in_every_part(
    onednn, monkeypatch, columns, counts, low
):
    require_bfloat16(onednn)
    cut_every_call(monkeypatch, counts)
    seen = n.computed(PACKED[columns], lanes=2, low=LOW[low])
    assert_right_in_bfloat16(seen, LOW[low])
    assert [call.weight.packed for call in seen.calls] == [True]


@pytest.mark.slow(3)
@pytest.mark.parametrize(
    "columns",
    [37, 96, 250, *(pytest.param(columns, marks=pytest.mark.full) for columns in (90, 98))],
)
@pytest.mark.parametrize("counts", [(1, 1, 1), (1, 2, 1), (3, 1, 1)])
def test_packed_weights_are_unpacked_in_every_part(onednn, monkeypatch, columns, counts):
    cut_every_call(monkeypatch, "x".join(map(str, counts)))
    seen = n.computed(PACKED[columns], lanes=2)
    assert [call.weight.packed for call in seen.calls] == [True]
    assert seen.error < TOLERANCE


WIDE = {
    "DCGAN": {"inputs": 1024, "outputs": 512},
    "4x4": {"inputs": 256, "outputs": 128},
    "wide rows": {"inputs": 32, "outputs": 64, "wide": 256},
    "3x3 apart": {"inputs": 448, "outputs": 64, "kernel": (3, 3), "strides": (3, 3)},
    "4x4 apart": {"inputs": 320, "outputs": 64, "strides": (4, 4)},
    "6x6": {"inputs": 256, "outputs": 128, "kernel": (6, 6)},
    "columns": {"inputs": 1024, "outputs": 128, "kernel": (4, 1), "strides": (2, 1)},
    "overlapping rows": {"inputs": 1024, "outputs": 128, "kernel": (2, 2), "strides": (1, 2)},
    "U-Net": {"inputs": 1024, "outputs": 64, "kernel": (2, 2)},
}


WIDE_AND_ALIKE = {"DCGAN", "3x3 apart", "4x4 apart", "U-Net"}


@pytest.mark.usefixtures("whole_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full) if name in WIDE_AND_ALIKE else name
        for name in WIDE
    ],
)
def test_wide_transposed_convolutions_take_steps_of_whole_sums(onednn, name):
    """oneDNN 3.2 has code that takes them of partial ones."""
    seen = n.computed(partial(n.transposed_then, n.scaled_and_moved, **WIDE[name]), lanes=2)
    assert len(seen.calls) == 1, "oneDNN computes it"
    assert seen.error < TOLERANCE


@pytest.mark.usefixtures("whole_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        lambda y, _: relay.nn.relu(y),
        lambda y, d: relay.nn.bias_add(y, n.variable("b", (128,), d)),
        lambda y, d: relay.tanh(y) * n.variable("s", (128, 1, 1), d) + n.constant(0.5, d),
        lambda y, d: relay.clip(y * n.constant(3.0, d), 0.0, 60.0),
        lambda y, d: y * relay.sigmoid(y) - n.variable("s", (1, 128, 14, 14), d),
    ],
    ids=["relu", "bias", "product later", "numbers", "whole tensor"],
)
def test_steps_of_wide_transposed_convolutions_are_right(onednn, step):
    make = partial(n.transposed_then, step, inputs=256, outputs=128)
    seen = n.computed(make, lanes=2)
    assert len(seen.calls) == 1, "oneDNN computes it"
    assert seen.error < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3x3x3", "3x3x3, residual"])
def test_code_that_reads_in_blocks_is_preferred_to_a_product_of_copied_windows(onednn, name):
    if not onednn.facts.isa.startswith("avx"):
        pytest.skip(f"what oneDNN has for {onednn.facts.isa} is not known here")
    (call,) = n.computed(OPERATORS[name], lanes=2).calls
    with prepared(call) as (made,):
        assert not any("gemm" in code for code in made.codes)
        assert made.count > 1, "tensors are reordered around it"


@pytest.mark.slow(2)
@pytest.mark.parametrize(("rows", "moved"), [(16, 1), (32, 0)])
def test_columns_of_many_rows_are_written_where_they_belong(onednn, rows, moved):
    if not onednn.facts.isa.startswith("avx512"):
        pytest.skip(f"what oneDNN has for {onednn.facts.isa} is not known here")
    (call,) = n.computed(partial(n.dense, rows=rows, columns=64), lanes=1).calls
    with prepared(call, (1, 2, 1)) as (_, *parts):
        assert [part.count - part.once for part in parts] == [1 + moved] * 2


@pytest.mark.usefixtures("whole_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in STEPS_ALIKE else name for name in STEPS],
)
def test_steps_are_right(onednn, name):
    _, kinds = STEPS[name]
    seen = n.computed(WITH_STEPS[name], lanes=2)
    assert [call.bias is not None for call in seen.calls] == [True]
    assert tuple(each.kind for each in seen.calls[0].steps) == kinds
    assert seen.error < TOLERANCE


SLOPES = {
    "a channel": (
        lambda y, d: relay.nn.prelu(y, n.variable("s", (64,), d), axis=3),
        StepKind.PRELU,
    ),
    "as of ONNX": (partial(n.bent, slopes=(64,)), StepKind.PRELU),
    "one": (partial(n.bent, slopes=(1,)), StepKind.PRELU),
    "number": (
        lambda y, d: relay.where(relay.less(y, n.constant(0.0, d)), y * n.constant(0.1, d), y),
        StepKind.RELU,
    ),
}


@pytest.mark.usefixtures("whole_calls")
@pytest.mark.slow
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_right(onednn, name):
    """In NHWC: TVM's passes leave blocks of channels before operators such as ``where``."""
    step, kind = SLOPES[name]
    seen = n.computed(lambda dtype: step(n.bare_nhwc(dtype), dtype), lanes=2)
    assert [[each.kind for each in call.steps] for call in seen.calls] == [[kind]]
    assert seen.error < TOLERANCE


CUTS = {
    "channels": (n.after(n.residual), [(1, 2, 1), (1, 4, 1)]),
    "images": (partial(n.biased, shape=(3, 32, 14, 14)), [(3, 1, 1), (2, 1, 1), (3, 2, 1)]),
    "rows": (
        partial(n.convolution, shape=(1, 15, 15, 32), layout="NHWC", strides=(2, 2)),
        [(1, 1, 2), (1, 1, 3), (1, 1, 7)],
    ),
    "channels of NHWC": (n.nhwc, [(1, 2, 1), (1, 4, 1)]),
    "pixels": (
        lambda dtype: n.residual(
            n.convolution(dtype, shape=(2, 7, 5, 32), layout="NHWC", kernel=1), dtype
        ),
        [(1, 1, 1), (2, 1, 2), (2, 1, 3), (2, 2, 1)],
    ),
    "groups of NHWC": (
        partial(n.convolution, shape=(1, 9, 9, 64), layout="NHWC", channels=64, groups=64),
        [(1, 2, 1)],
    ),
    "depthwise": (partial(n.biased, channels=32, groups=32), [(1, 2, 1)]),
    "grouped": (partial(n.biased, shape=(1, 64, 14, 14), groups=4), [(1, 4, 1)]),
    "first layer": (partial(n.biased, shape=(1, 3, 32, 32), channels=32), [(1, 2, 1)]),
    "clips": (
        partial(n.clips, channels=64, padding=(1, 1, 1), step=n.residual),
        [(1, 2, 1), (1, 4, 1)],
    ),
    "two clips": (
        partial(n.clips, shape=(2, 32, 3, 7, 7), padding=(1, 1, 1)),
        [(2, 1, 1), (2, 3, 1)],
    ),
    "depth": (
        partial(
            n.clips,
            shape=(1, 7, 6, 5, 32),
            layout="NDHWC",
            padding=(2, 1, 0, 1, 1, 1),
            strides=(2, 1, 1),
        ),
        [(1, 1, 2), (1, 1, 4)],
    ),
    "transposed": (
        partial(n.transposed_rows, images=2),
        [(2, 1, 1), (1, 1, 2), (1, 1, 5), (2, 1, 3)],
    ),
    "dense": (
        partial(n.dense, rows=5, columns=64, step=n.residual),
        [(2, 1, 1), (5, 1, 1), (1, 2, 1), (1, 4, 1)],
    ),
    "slopes": (
        lambda dtype: n.bent(n.bare_nhwc(dtype), dtype, slopes=(64,)),
        [(1, 2, 1), (1, 4, 1)],
    ),
    "dense, slopes": (
        partial(n.dense, rows=5, columns=64, step=partial(n.bent, slopes=(64,))),
        [(2, 1, 1), (1, 2, 1)],
    ),
    "dense of many rows": (
        partial(n.dense, rows=70, columns=64, step=n.residual),
        [(2, 1, 1), (1, 2, 1), (1, 4, 1)],
    ),
    "dense of many rows, GELU": (
        partial(n.dense, rows=33, columns=96, step=n.gelu),
        [(1, 2, 1), (1, 3, 1)],
    ),
    "matrices": (partial(n.matrices, transposed=True), [(2, 1, 1), (4, 1, 1), (1, 1, 2)]),
    "pooling": (n.pooled_and_more, [(1, 2, 1), (1, 3, 1)]),
    "pooling of NCHW": (
        partial(n.pooled, kind="avg_pool2d", pool_size=(3, 3), padding=(1, 1)),
        [(1, 2, 1), (1, 4, 1)],
    ),
    "pooling of rows": (
        partial(
            n.pooled, shape=(1, 15, 11, 20), layout="NHWC", pool_size=(3, 3), padding=(1, 0, 0, 1)
        ),
        [(1, 1, 2), (1, 1, 5)],
    ),
    "pooling of images": (
        partial(n.pooled, shape=(3, 9, 11, 20), layout="NHWC", pool_size=(2, 2), strides=(2, 2)),
        [(3, 1, 1), (2, 1, 1)],
    ),
    "global average": (partial(n.pooled_blocks, kind="global_avg_pool2d"), [(1, 3, 1)]),
    "softmax": (n.softmax, [(3, 1, 1), (2, 1, 1), (3, 2, 1)]),
}


CUTS_ALIKE = {
    *("first layer", "two clips", "dense, slopes", "dense of many rows", "pooling of NCHW"),
    "depthwise",
}
"""Operators that are cut as another one is, such as "clips" and "channels"."""
CUT_IN_BFLOAT16 = {
    *("channels", "depth", "transposed", "dense of many rows", "matrices", "pooling of rows"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in CUTS_ALIKE else name for name in CUTS],
)
def test_parts_are_right(onednn, monkeypatch, name):
    make, cuts = CUTS[name]
    for counts in cuts:
        text = "x".join(map(str, counts))
        cut_every_call(monkeypatch, text)
        seen = n.computed(make, lanes=2)
        assert [call.cut.as_text() for call in seen.calls] == [text]
        assert seen.error < TOLERANCE


@pytest.mark.slow(2)
@MOSTLY_ALL
@pytest.mark.parametrize(
    "name",
    [
        name if name in CUT_IN_BFLOAT16 else pytest.param(name, marks=pytest.mark.full)
        for name in CUTS
    ],
)
def test_parts_are_right_in_bfloat16(onednn, monkeypatch, name, low):
    require_bfloat16(onednn)
    make, cuts = CUTS[name]
    for counts in cuts:
        text = "x".join(map(str, counts))
        cut_every_call(monkeypatch, text)
        seen = n.computed(make, lanes=2, low=LOW[low])
        assert_right_in_bfloat16(seen, LOW[low])
        assert [call.cut.as_text() for call in seen.calls] == [text]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        partial(
            n.pooled_blocks,
            kind="avg_pool2d",
            pool_size=(3, 3),
            strides=(2, 2),
            ceil_mode=True,
            count_include_pad=True,
        ),
        partial(n.pooled, kind="adaptive_avg_pool2d", output_size=(3, 3)),
        partial(n.pooled, kind="global_max_pool2d"),
        partial(n.pooled_blocks, pool_size=(3, 2), padding=(1, 1), dilation=(2, 3)),
    ],
)
def test_poolings_that_the_library_means_otherwise_stay_with_tvm(onednn, make):
    seen = n.computed(make, lanes=1)
    assert seen.calls == ()
    assert seen.error < TOLERANCE


@pytest.mark.slow(1)
def test_what_oneDNN_has_no_fast_code_for_stays_with_tvm(onednn):  # noqa: N802
    seen = n.computed(lambda dtype: relay.exp(n.biased(dtype)), lanes=1)
    assert seen.calls == ()
    assert np.isfinite(seen.ours).all()


def attention_layer(dtype: str) -> relay.Expr:
    """Attention and a layer with GELU, as TVM imports them from a file of PyTorch's exporter."""
    batch, rows, heads, width = 2, 9, 3, 10
    depth = heads * width
    number = n.constant(0.5, dtype)

    def linear(value: relay.Expr, name: str, outputs: int, inputs: int = depth) -> relay.Expr:
        weight = n.variable(f"w{name}", (outputs, inputs), dtype)
        product = relay.nn.dense(relay.reshape(value, (-1, inputs)), weight)
        bias = n.variable(f"b{name}", (outputs,), dtype)
        return bias + relay.reshape(product, (batch, rows, outputs))

    def split(value: relay.Expr, *axes: int) -> relay.Expr:
        apart = relay.transpose(relay.reshape(value, (batch, rows, heads, width)), axes)
        return relay.reshape(apart, (batch * heads, *n.shape_of(apart)[2:]))

    x = n.variable("x", (batch, rows, depth), dtype)
    q, k = (split(linear(x, name, depth), 0, 2, 1, 3) for name in "qk")
    v = split(linear(x, "v", depth), 0, 2, 3, 1)
    scores = relay.reshape(relay.nn.batch_matmul(q, k), (batch, heads, rows, rows))
    shares = relay.reshape(relay.nn.softmax(scores * number), (-1, rows, rows))
    mixed = relay.reshape(relay.nn.batch_matmul(shares, v), (batch, heads, rows, width))
    joined = relay.reshape(relay.transpose(mixed, (0, 2, 1, 3)), (batch, rows, depth))
    value = x + linear(joined, "o", depth)
    inner = linear(value, "a", 4 * depth)
    bent = relay.erf(inner * n.constant(0.5**0.5, dtype)) * number + number
    return value + linear(inner * bent, "z", depth, 4 * depth)


@pytest.mark.slow(3)
@pytest.mark.parametrize("lanes", [1, 2])
def test_products_of_a_transformer_take_bias_residual_and_activation(onednn, lanes):
    seen = n.computed(attention_layer, lanes=lanes, sink=True)
    products = [call for call in seen.calls if call.primitive is Primitive.PRODUCT]
    taken = Counter(step.kind for call in products for step in call.steps)
    # The half of GELU is in the weights behind it, so what is left is twice GELU.
    assert taken == {StepKind.ADD: 2, StepKind.GELU: 1, StepKind.LINEAR: 1}
    assert len(products) == 6
    assert sum(call.bias is not None for call in products) == 6
    assert seen.error < TOLERANCE
