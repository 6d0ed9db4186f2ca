from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te, topi

from tests.relax.networks import TARGET
from tests.relax.relax.schedules.kernels import computed, ran
from tvm_ios.relax.schedules.gathered import with_gathered_vectors
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.schedules.rows import rows
from tvm_ios.relax.target import resolve_target

SUMS = {"sum": (te.sum, np.sum), "max": (te.max, np.max), "min": (te.min, np.min)}


def _kernel(combine, rows, length):
    x = te.placeholder((rows, length), "float32", "x")
    along = te.reduce_axis((0, length), "along")
    y = te.compute((rows,), lambda at: combine(x[at, along], along), "y")
    return te.create_prim_func([x, y])


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("rows", [1, 5, 6])
@pytest.mark.parametrize("length", [8, 63, 97, 192])
def test_rows_of_any_length_are_summed_in_vectors(name, rows, length):
    combine, expected = SUMS[name]
    kernel = _kernel(combine, rows, length)
    assert "parts" in scheduled(kernel, resolve_target(TARGET)).script()
    x = np.random.default_rng(0).integers(-50, 50, (rows, length)).astype("float32")
    result = expected(x, axis=1)
    np.testing.assert_array_equal(computed(kernel, x, like=result), result)


@pytest.mark.parametrize("name", SUMS)
def test_short_rows_are_summed_one_by_one(name):
    kernel = _kernel(SUMS[name][0], 5, 7)
    assert "parts" not in scheduled(kernel, resolve_target(TARGET)).script()


def _rows_with_everything(rows, length):
    """Rows of few different numbers, zeros of both signs, infinities and NaN of both signs."""
    random = np.random.default_rng(0)
    values = np.array([-3.0, -0.0, 0.0, 2.5, -np.inf, np.inf, np.nan, -np.nan], "float32")
    kinds = np.minimum(random.integers(1, 9, rows), len(values))
    x = np.stack([values[random.integers(0, kind, length)] for kind in kinds])
    x[0], x[1], x[2, :] = -np.inf, np.inf, 1.0
    x[3] = random.standard_normal(length)
    x[4] = 0.0
    x[4, -1], x[4, -2] = np.nan, np.inf
    return x


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("length", [8, 13, 32, 97, 128, 130, 1000])
def test_places_are_those_of_numpy(name, length):
    find, expected = getattr(topi, name), getattr(np, name)
    x = te.placeholder((64, length), "float32", "x")
    kernel = te.create_prim_func([x, find(x, 1)])
    assert "parts" in scheduled(kernel, resolve_target(TARGET)).script()
    values = _rows_with_everything(64, length)
    result = expected(values, axis=1).astype("int32")
    np.testing.assert_array_equal(computed(kernel, values, like=result), result)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("length", [8, 97, 260])
def test_vectors_are_those_of_a_processor(lanes, length):
    x = te.placeholder((64, length), "float32", "x")
    schedule = s_tir.Schedule(te.create_prim_func([x, topi.argmin(x, 1)]))
    assert rows(schedule, lanes)
    made = with_gathered_vectors(schedule.mod["main"], lanes)
    assert f"parts = T.alloc_buffer(({min(lanes, length)},))" in made.script()
    values = _rows_with_everything(64, length)
    result = np.argmin(values, axis=1).astype("int32")
    np.testing.assert_array_equal(ran(made, values, like=result), result)


@pytest.mark.parametrize("arguments", [{"select_last_index": True}, {"axis": 0}])
def test_other_places_are_searched_one_by_one(arguments):
    x = te.placeholder((64, 64), "float32", "x")
    kernel = te.create_prim_func([x, topi.argmax(x, **{"axis": 1, **arguments})])
    made = scheduled(kernel, resolve_target(TARGET))
    assert made is None or "parts" not in made.script()


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_groups_of_channels_are_rows(groups):
    shape = 2, 6, 7, 11
    x, scale = te.placeholder(shape, "float32"), te.placeholder((6,), "float32")
    kernel = te.create_prim_func(
        [x, scale, topi.nn.group_norm(x, scale, scale, groups, 1, [2, 3], 1e-5)]
    )
    assert "parts" in scheduled(kernel, resolve_target(TARGET)).script()
    random = np.random.default_rng(0)
    values = random.standard_normal(shape, "float32")
    factors = random.standard_normal((6, 1, 1), "float32")
    grouped = values.reshape(2, groups, -1)
    mean, variance = grouped.mean(2, keepdims=True), grouped.var(2, keepdims=True)
    normal = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(shape)
    expected = normal * factors + factors
    result = computed(kernel, values, factors.reshape(6), like=expected)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 8), (5, 31), (14, 49), (16, 100), (3, 259)])
def test_layers_are_normalised_in_rows_of_any_length(shape):
    x, scale = te.placeholder(shape, "float32"), te.placeholder(shape[1:], "float32")
    kernel = te.create_prim_func([x, scale, topi.nn.layer_norm(x, scale, scale, [1], 1e-5)])
    random = np.random.default_rng(0)
    values, factors = (random.standard_normal(each, "float32") for each in (shape, shape[1:]))
    mean, variance = values.mean(1, keepdims=True), values.var(1, keepdims=True)
    expected = (values - mean) / np.sqrt(variance + 1e-5) * factors + factors
    result = computed(kernel, values, factors, like=expected)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
