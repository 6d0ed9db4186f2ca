"""Mish: right from -infinity to infinity, with one exponential, as both importers write it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.conftest import TARGET, Nets
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.mish import with_short_mish
from tvm_ios.support.exact_bits import exact_bits

Written = Callable[[relay.Expr], relay.Expr]
X = relay.var("x", shape=(3, 70))


def of_onnx(value: relay.Expr) -> relay.Expr:
    return value * relay.tanh(relay.log(relay.exp(value) + relay.const(1.0)))


def of_torch(value: relay.Expr, threshold: float = 20.0) -> relay.Expr:
    one = relay.const(1.0)
    smooth = relay.log(relay.exp(value * one) + one) / one
    above = relay.greater(value * one, relay.const(threshold))
    return value * relay.tanh(relay.where(above, value, smooth))


def module_of(result: relay.Expr) -> tvm.IRModule:
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([X], result)))


def has_logarithm(module: tvm.IRModule) -> bool:
    return "log(" in str(prepare(module, {}, TARGET).module)


@pytest.mark.parametrize("written", [of_onnx, of_torch])
def test_results_are_those_of_mish(nets: Nets, written: Written) -> None:
    data = np.linspace(-30, 30, 210).astype("float32").reshape(3, 70)
    data[0, :5] = np.inf, -90, 88.8, 1e-30, np.nan
    prepared = prepare(module_of(written(X)), {}, TARGET)
    (result,) = nets.stock(prepared.module, None, data)
    exact = data.astype("float64")
    with np.errstate(invalid="ignore"):
        expected = exact * np.tanh(np.logaddexp(0, exact))
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-42)


@pytest.mark.parametrize("written", [of_onnx, of_torch])
def test_the_logarithm_goes_unless_bits_are_to_be_exact(written: Written) -> None:
    assert not has_logarithm(module_of(written(X)))
    with exact_bits(True):
        assert has_logarithm(module_of(written(X)))


@pytest.mark.parametrize(
    "result",
    [
        relay.tanh(relay.log(relay.exp(X) + relay.const(2.0))),
        relay.tanh(relay.log(relay.exp(X) + X)),
        relay.log(relay.exp(X) + relay.const(1.0)),
        of_torch(X, 3.0),
        relay.tanh(X),
    ],
)
def test_what_is_not_mish_stays(result: relay.Expr) -> None:
    module = module_of(result)
    simple = relay.transform.SimplifyExpr()(module)
    tvm.ir.assert_structural_equal(with_short_mish(simple), simple)


def test_other_types_stay() -> None:
    value = relay.var("x", shape=(3,), dtype="float16")
    one = relay.const(1.0, "float16")
    gate = relay.tanh(relay.log(relay.exp(value) + one))
    module = tvm.IRModule.from_expr(relay.Function([value], gate))
    typed = relay.transform.InferType()(module)
    assert with_short_mish(typed).same_as(typed)


@pytest.mark.parametrize("swapped", [False, True])
def test_gates_of_another_shape_than_their_argument_stay(swapped: bool) -> None:
    one = relay.const(np.ones((1, 1, 1), "float32"))
    total = one + relay.exp(X) if swapped else relay.exp(X) + one
    module = module_of(X * relay.tanh(relay.log(total)))
    assert with_short_mish(module).same_as(module)
