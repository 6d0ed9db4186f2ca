from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import te, tirx

from tests.relax.networks import TARGET
from tests.relax.relax.schedules.kernels import computed, element_wise
from tvm_ios.relax.schedules.arithmetic import with_arithmetic
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.target import resolve_target
from tvm_ios.support.exact_bits import exact_bits

FUNCTIONS = {
    "exp": (tirx.exp, np.exp, (-86.9, 88.7)),
    "erf": (tirx.erf, np.vectorize(math.erf), (-5, 5)),
    "tanh": (tirx.tanh, np.tanh, (-12, 12)),
    "sigmoid": (tirx.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (-80, 80)),
    "log": (tirx.log, np.log, (1e-40, 100)),
    "rsqrt": (tirx.rsqrt, lambda x: 1 / np.sqrt(x), (1e-3, 100)),
    "square": (lambda x: tirx.power(x, tirx.const(2.0, "float32")), np.square, (-5, 5)),
    "softplus": (lambda x: tirx.log(tirx.exp(x) + 1.0), lambda x: np.log1p(np.exp(x)), (0, 80)),
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 3e-39, -2.0], "float32")
STAYING = {
    "by a condition": lambda x: tirx.if_then_else(x > 0.0, tirx.log(x), 0.0),
    "root": tirx.sqrt,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_within_4_ulp(name):
    function, exact, span = FUNCTIONS[name]
    x = np.linspace(*span, 4096).astype("float32")
    found = computed(element_wise(function, x.size), x, like=x)
    expected = exact(x.astype("float64"))
    ulp = np.spacing(np.abs(expected).astype("float32")).astype("float64")
    assert np.max(np.abs(found - expected) / ulp) < 4


@pytest.mark.parametrize("name", ["exp", "erf", "tanh", "sigmoid", "log"])
def test_special_values_are_exact(name):
    function, exact, _ = FUNCTIONS[name]
    found = computed(element_wise(function, SPECIAL.size), SPECIAL, like=SPECIAL)
    with np.errstate(all="ignore"):
        expected = exact(SPECIAL.astype("float64")).astype("float32")
    np.testing.assert_allclose(found, expected, rtol=5e-7)
    np.testing.assert_array_equal(np.signbit(found[3:5]), np.signbit(expected[3:5]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_is_called(name):
    kernel = scheduled(element_wise(FUNCTIONS[name][0], 64), resolve_target(TARGET))
    for called in ("exp", "erf", "tanh", "sigmoid", "log", "rsqrt", "pow"):
        assert f"T.{called}(" not in kernel.script()


@pytest.mark.parametrize("name", STAYING)
def test_these_calls_stay(name):
    kernel = element_wise(STAYING[name], 64)
    script = with_arithmetic(kernel).script()
    assert "T.sqrt(" in script or "T.log(" in script


def test_exponentials_vanish_before_they_are_subnormal():
    x = np.array([-86.9, -87.4, -104.0, -1e30, 88.73, 1e30], "float32")
    found = computed(element_wise(tirx.exp, x.size), x, like=x)
    np.testing.assert_array_equal(found[1:], [0, 0, 0, np.inf, np.inf])
    np.testing.assert_allclose(found[0], np.exp(x[0]), rtol=5e-7)


def test_quotients_by_one_number_are_products():
    x, divisor = te.placeholder((4, 32), "float32", "x"), te.placeholder((4,), "float32", "d")
    kernel = te.create_prim_func(
        [x, divisor, te.compute((4, 32), lambda i, j: x[i, j] / divisor[i])]
    )
    values = np.random.default_rng(0).standard_normal((4, 32)).astype("float32")
    divisors = np.array([3.0, np.inf, 0.0, np.nan], "float32")
    with np.errstate(all="ignore"):
        expected = values / divisors[:, None]
    assert " / divisor" not in scheduled(kernel, resolve_target(TARGET)).script()
    result = computed(kernel, values, divisors, like=values)
    np.testing.assert_allclose(result, expected, rtol=2.5e-7)


def test_quotients_that_are_rounded_stay():
    kernel = element_wise(lambda x: tirx.round(x / tirx.const(0.1, "float32")), 64)
    x = np.linspace(-6.35, 6.4, 64).astype("float32")
    expected = np.round(x / np.float32(0.1))
    np.testing.assert_array_equal(computed(kernel, x, like=x), expected)
    assert " / " in scheduled(kernel, resolve_target(TARGET)).script()


def test_text_grows_with_the_number_of_steps_alone():
    def logarithms(count):
        def function(x):
            for _ in range(count):
                x = tirx.log(x)
            return x

        return len(with_arithmetic(element_wise(function, 64)).script())

    assert logarithms(4) < 5 * logarithms(1)


def test_stock_bits_are_left_where_they_are_wanted():
    with exact_bits(True):
        kernel = scheduled(element_wise(tirx.exp, 64), resolve_target(TARGET))
    assert "T.exp(" in kernel.script()
