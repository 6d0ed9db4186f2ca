"""Lowered kernels whose arguments are exchanged for ones of bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.bfloat16 import nearest, widened
from tvm_ios.core.precision.stored_type import IN_BFLOAT16, StoredType
from tvm_ios.host import has_bfloat16, host_target
from tvm_ios.kernels.stored_types import with_stored_types

SIZE = 37
TIES = (1 + 2**-8, 1 + 3 * 2**-8)
FINITE = (0.0, -0.0, 1e-40, -1e-45, 1e-38, 65504.0, 3.4e38, -3.4028235e38, *TIES)
SPECIAL = np.array((np.inf, -np.inf, np.nan, *FINITE), "float32")
"""Infinities, NaN, subnormals, values near the largest, and ties."""


def stored_in_bfloat16(kernel, arguments, target=None):
    return with_stored_types(kernel, dict.fromkeys(arguments, IN_BFLOAT16), target)


def lowered(*tensors, vectors=16):
    schedule = te.create_schedule(tensors[-1].op)
    stage = schedule[tensors[-1]]
    if isinstance(stage.op, te.ComputeOp) and not stage.op.reduce_axis:
        _, inner = stage.split(stage.fuse(*stage.op.axis), vectors)
        stage.vectorize(inner)
    return tvm.lower(schedule, list(tensors), name="kernel")["kernel"]


def run(kernel, *inputs, shape=(SIZE,), dtype="bfloat16", target=None):
    """Bits of what a kernel makes of arrays; those of integers are bfloat16."""
    module = tvm.IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")})
    built = tvm.build(module, target=tvm.target.Target(target or host_target()))
    arguments = []
    for each in inputs:
        given = tvm.nd.empty(each.shape, "bfloat16" if each.dtype == "uint16" else each.dtype)
        given.copyfrom(each)
        arguments.append(given)
    made = tvm.nd.empty(shape, dtype)
    built["kernel"](*arguments, made)
    return made.numpy()


def copy():
    data = te.placeholder((SIZE,), name="data")
    return data, te.compute((SIZE,), lambda i: data[i])


def test_numbers_are_rounded_to_the_nearest_and_widened_exactly():
    values = np.resize(SPECIAL, SIZE)
    kernel = lowered(*copy())
    np.testing.assert_array_equal(run(stored_in_bfloat16(kernel, {1}), values), nearest(values))
    bits = nearest(values)
    back = run(stored_in_bfloat16(kernel, {0}), bits, dtype="float32")
    np.testing.assert_array_equal(back, widened(bits))


@pytest.mark.parametrize("vectors", [4, 8, 16])
def test_instructions_round_to_the_same_numbers_but_zeros(vectors):
    if not has_bfloat16():
        pytest.skip("this processor has no avx512_bf16")
    target = tvm.target.Target("llvm -mcpu=cooperlake")
    values = np.resize(SPECIAL, 64)
    data = te.placeholder((64,), name="data")
    copied = lowered(data, te.compute((64,), lambda i: data[i]), vectors=vectors)
    kernel = stored_in_bfloat16(copied, {1}, target)
    assert ("cvtneps2bf16" in str(kernel)) == (vectors != 4)
    found = run(kernel, values, shape=(64,), target=target)
    zero = np.copysign(np.float32(0), values)
    tiny = np.abs(values) < np.finfo("float32").tiny
    wanted = nearest(np.where(tiny, zero, values) if vectors != 4 else values)
    np.testing.assert_array_equal(found, wanted)


def test_what_is_computed_between_is_float32():
    one, other = (te.placeholder((SIZE,), name=name) for name in "xy")
    total = te.compute((SIZE,), lambda i: one[i] * other[i] + tir.const(1 / 3, "float32"))
    kernel = stored_in_bfloat16(lowered(one, other, total), {0, 2})
    random = np.random.default_rng(0)
    left, right = (random.standard_normal(SIZE, "float32") for _ in range(2))
    found = run(kernel, nearest(left), right)
    exact = widened(nearest(left)).astype("float64") * right + np.float32(1 / 3)
    np.testing.assert_allclose(widened(found), exact, rtol=2**-8)


def test_sums_in_the_result_are_of_float32():
    rows, columns = SIZE, 3000
    data = te.placeholder((rows, columns), name="data")
    along = te.reduce_axis((0, columns))
    total = te.compute((rows,), lambda i: te.sum(data[i, along], along))
    values = np.ones((rows, columns), "float32")
    found = run(stored_in_bfloat16(lowered(data, total), {0, 1}), nearest(values))
    assert set(widened(found)) == {np.float32(3008)}  # sums of bfloat16 would end at 256


def test_sums_of_a_large_result_do_not_lie_on_the_stack():
    rows, columns = 3_000_000, 2
    data = te.placeholder((rows, columns), name="data")
    along = te.reduce_axis((0, columns))
    total = te.compute((rows,), lambda i: te.sum(data[i, along], along))
    kernel = stored_in_bfloat16(lowered(data, total), {1})
    found = run(kernel, np.full((rows, columns), 0.5, "float32"), shape=(rows,))
    np.testing.assert_array_equal(found, nearest(np.ones(rows, "float32")))


def test_other_functions_are_given_float32():
    def double(given, made):
        assert given.dtype == made.dtype == "float32"
        made.copyfrom(given.numpy() * 2)

    tvm.register_func("tests.double", double, override=True)
    data = te.placeholder((SIZE,), name="data")
    made = te.extern(
        (SIZE,), [data], lambda given, made: tir.call_packed("tests.double", given[0], made[0])
    )
    kernel = lowered(data, made)
    bits = nearest(np.resize(SPECIAL, SIZE))
    wanted = widened(bits) * 2
    stored = stored_in_bfloat16(kernel, {0, 1})
    np.testing.assert_array_equal(run(stored, bits), nearest(wanted))
    found = run(stored_in_bfloat16(kernel, {0}), bits, dtype="float32")
    np.testing.assert_array_equal(found, wanted)
    found = run(stored_in_bfloat16(kernel, {1}), widened(bits))
    np.testing.assert_array_equal(found, nearest(wanted))


def test_an_element_whose_address_is_handed_on_is_float32():
    data, made = copy()
    kernel = lowered(data, made)
    first = tir.BufferLoad(kernel.buffer_map[kernel.params[0]], [0])
    call = tir.Evaluate(tir.call_extern("int32", "puts", tir.address_of(first)))
    outside = kernel.with_body(tir.SeqStmt([call, kernel.body]))
    seen = []
    tvm.tir.stmt_functor.post_order_visit(stored_in_bfloat16(outside, {0}).body, seen.append)
    (handed,) = (
        each
        for each in seen
        if isinstance(each, tir.Call) and str(each.op.name) == "tir.address_of"
    )
    assert handed.args[0].dtype == "float32"
    fetch = tir.Evaluate(tir.call_intrin("int32", "tir.prefetch", tir.address_of(first), 0, 2, 1))
    fetching = kernel.with_body(tir.SeqStmt([fetch, kernel.body]))
    bits = nearest(np.resize(SPECIAL, SIZE))
    np.testing.assert_array_equal(run(stored_in_bfloat16(fetching, {0, 1}), bits), bits)


def test_a_kernel_without_such_arguments_is_itself():
    kernel = lowered(*copy())
    assert stored_in_bfloat16(kernel, set()) is kernel


WHOLE = [
    StoredType(dtype="uint8", scale=0.05, zero_point=128),
    StoredType(dtype="uint8", scale=3.0),
    StoredType(dtype="int8", scale=0.5, zero_point=-7),
    StoredType(dtype="int8"),
]


def whole_numbers(values, stored):
    """Whole numbers by NumPy."""
    with np.errstate(invalid="ignore", over="ignore"):
        steps = values * (np.float32(1) / np.float32(stored.scale))
        limited = np.clip(np.where(np.isnan(values), -np.inf, steps), *stored.steps)
    return (np.rint(limited) + stored.zero_point).astype(stored.dtype)


@pytest.mark.parametrize("vectors", [1, 4, 16])
@pytest.mark.parametrize("stored", WHOLE, ids=StoredType.as_text)
def test_whole_numbers_are_the_nearest_ones(stored, vectors):
    ties = (np.arange(-300, 300) + 0.5) * stored.scale
    values = np.resize(np.array([*SPECIAL, *ties], "float32"), 640)
    data = te.placeholder(values.shape, name="data")
    copied = lowered(data, te.compute(values.shape, lambda i: data[i]), vectors=vectors)
    kernel = with_stored_types(copied, {1: stored})
    found = run(kernel, values, shape=values.shape, dtype=stored.dtype)
    np.testing.assert_array_equal(found, whole_numbers(values, stored))


@pytest.mark.parametrize("stored", WHOLE, ids=StoredType.as_text)
def test_whole_numbers_are_read_as_what_they_stand_for(stored):
    limits = np.iinfo(stored.dtype)
    values = np.arange(limits.min, limits.max + 1).astype(stored.dtype)
    data = te.placeholder(values.shape, name="data")
    copied = lowered(data, te.compute(values.shape, lambda i: data[i]))
    found = run(with_stored_types(copied, {0: stored}), values, shape=values.shape, dtype="float32")
    wanted = (values.astype("int32") - stored.zero_point).astype("float32")
    np.testing.assert_array_equal(found, wanted * np.float32(stored.scale))


def test_arguments_have_types_of_their_own():
    shape = (SIZE,)
    left, right = (te.placeholder(shape, name=name) for name in "xy")
    total = te.compute(shape, lambda i: left[i] + right[i])
    types = {0: WHOLE[0], 1: IN_BFLOAT16, 2: WHOLE[2]}
    kernel = with_stored_types(lowered(left, right, total), types)
    whole = np.arange(SIZE).astype("uint8")
    other = nearest(np.linspace(-9, 9, SIZE).astype("float32"))
    found = run(kernel, whole, other, dtype="int8")
    wanted = (whole.astype("float32") - 128) * np.float32(0.05) + widened(other)
    np.testing.assert_array_equal(found, whole_numbers(wanted.astype("float32"), WHOLE[2]))
