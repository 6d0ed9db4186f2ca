"""Calls of libm that are replaced: everywhere in a loop's body, in loops of any kind."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
import tvm
from tvm import te, tir
from tvm.ir.transform import PassContext

from tests.kernels.vector_math.conftest import SIZE, arguments, computed
from tvm_ios.host import host_target
from tvm_ios.kernels.lowering_context import LOWER_PASSES
from tvm_ios.kernels.vector_math import (
    arithmetic_lowering,
    preparing_lowering,
    with_arithmetic,
)

LIBM = re.compile(r"\b(exp|log|erf|tanh|pow)f\b")


def one(value):
    return tir.const(value, "float32")


def gelu(x):
    return x * (one(0.5) + tir.erf(x * one(0.7071)) * one(0.5))


def lowered(function, lanes=16, kind="float32"):
    source = te.placeholder((64,), name="x", dtype=kind)
    result = te.compute((64,), lambda i: function(source[i]), name="y")
    schedule = te.create_schedule(result.op)
    if lanes:
        schedule[result].vectorize(schedule[result].split(result.op.axis[0], lanes)[1])
    with preparing_lowering():
        return tvm.lower(schedule, [source, result])["main"]


def results(source, result, values, schedule=None):
    """What a built computation of one input gives."""
    with arithmetic_lowering():
        built = tvm.build(schedule or te.create_schedule(result.op), [source, result], "llvm")
    shape = [int(extent) for extent in result.shape]
    given = tvm.nd.empty(shape, result.dtype)
    built(tvm.nd.array(values), given)
    return given.numpy()


def calls_of(function):
    names = []

    def visit(node):
        if isinstance(node, tir.Call):
            names.append(node.op.name)

    tir.stmt_functor.post_order_visit(function.body, visit)
    return set(names) - {"tir.reinterpret", "tir.bitwise_and", "tir.bitwise_or"}


@pytest.mark.parametrize("lanes", [16, 0])
@pytest.mark.parametrize("function", [gelu, tir.exp, tir.log, tir.tanh, tir.sigmoid])
def test_no_call_of_libm_is_left(function, lanes):
    built = computed(function, host_target(), lanes)
    assert not LIBM.search(built.get_source("asm"))


@pytest.mark.parametrize("function", [gelu, tir.exp, tir.log, tir.tanh, tir.sigmoid, tir.rsqrt])
def test_other_processors_than_x86_have_it_too(function):
    arm = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
    assert not LIBM.search(computed(function, arm).get_source("asm"))


@pytest.mark.parametrize("function", [gelu, tir.rsqrt])
def test_loops_that_tvm_leaves_lane_by_lane_are_vectorised(function):
    loops = []
    code = with_arithmetic(lowered(function))
    tir.stmt_functor.post_order_visit(
        code.body, lambda node: loops.append(node) if isinstance(node, tir.For) else None
    )
    assert [int(loop.extent) for loop in loops] == [4]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (tir.sin, "float32"),
        (tir.exp, "float64"),
        (tir.tanh, "float16"),
        (lambda x: tir.power(x, one(2.5)), "float32"),
        (lambda x: tir.power(x, x), "float32"),
        (lambda x: x * one(2), "float32"),
    ],
)
def test_everything_else_stays(function, kind):
    code = lowered(function, kind=kind)
    assert with_arithmetic(code).same_as(code)


def test_functions_of_functions_grow_linearly():
    def deep(x):
        for _ in range(6):
            x = tir.tanh(tir.log(one(1) + tir.exp(x)))
        return x

    begin = time.perf_counter()
    computed(deep, host_target())
    assert time.perf_counter() - begin < 20  # once the analyser writes steps out, it never ends


def test_a_branch_does_only_its_own_steps():
    source = te.placeholder((64,), name="x")
    padded = te.compute(
        (96,),
        lambda i: tir.if_then_else(tir.all(i >= 16, i < 80), tir.exp(source[i - 16]), one(0)),
        name="y",
    )
    values = np.linspace(-3, 3, 64, dtype="float32")
    wanted = np.zeros(96)
    wanted[16:80] = np.exp(values.astype("float64"))
    np.testing.assert_allclose(results(source, padded, values), wanted, rtol=2e-7)
    module = tvm.lower(te.create_schedule(padded.op), [source, padded])
    ways = []
    tir.stmt_functor.post_order_visit(
        with_arithmetic(module["main"]).body,
        lambda node: ways.append(node) if isinstance(node, tir.IfThenElse) else None,
    )
    (way,) = ways
    assert "x" in {str(load) for load in reads_of(way.then_case)}
    assert not reads_of(way.else_case)


def test_a_branch_gives_truth_values():
    source = te.placeholder((4,), name="x")
    answers = te.compute(
        (2, 4),
        lambda row, i: tir.if_then_else(
            row > 0, tir.exp(source[i]) > one(1), tir.tanh(source[i]) > source[i]
        ),
        name="y",
    )
    schedule = te.create_schedule(answers.op)
    schedule[answers].vectorize(answers.op.axis[1])
    values = np.array([-2, -1, 1, 2], "float32")
    given = results(source, answers, values, schedule)
    np.testing.assert_array_equal(given, [np.tanh(values) > values, np.exp(values) > 1])


def reads_of(statement):
    names = []
    tir.stmt_functor.post_order_visit(
        statement,
        lambda node: names.append(node.buffer.name) if isinstance(node, tir.BufferLoad) else None,
    )
    return names


def test_variables_of_expressions_keep_their_scope():
    x = tir.Var("x", "float32")
    source = tir.decl_buffer((4,), "float32", "source")
    target = tir.decl_buffer((4,), "float32", "target")
    value = tir.Let(x, tir.exp(source[0]), tir.tanh(x) + x)
    body = tir.BufferStore(target, value, [0])
    a, b = tir.Var("a", "handle"), tir.Var("b", "handle")
    function = tir.PrimFunc([a, b], body, buffer_map={a: source, b: target})
    built = tvm.build(with_arithmetic(function), target="llvm")
    result = tvm.nd.array(np.zeros(4, "float32"))
    built(tvm.nd.array(np.full(4, 0.25, "float32")), result)
    wanted = np.exp(0.25)
    assert result.numpy()[0] == pytest.approx(np.tanh(wanted) + wanted, rel=3e-7)


def test_a_condition_keeps_libm():
    a, b = tir.Var("a", "handle"), tir.Var("b", "handle")
    source = tir.decl_buffer((1,), "float32", "source")
    target = tir.decl_buffer((1,), "float32", "target")
    store = tir.BufferStore(target, tir.exp(source[0]), [0])
    body = tir.IfThenElse(tir.exp(source[0]) > 2.0, store, None)
    code = with_arithmetic(tir.PrimFunc([a, b], body, buffer_map={a: source, b: target}))
    assert isinstance(code.body.condition.a, tir.Call)
    assert calls_of(code) >= {"tir.exp"}
    assert "tir.exp" not in calls_of(code.with_body(code.body.then_case))


def test_a_condition_of_an_expression_is_arithmetic():
    source = te.placeholder((40,), name="x")
    chosen = te.compute(
        (40,),
        lambda i: tir.if_then_else(tir.erf(source[i]) > one(0.5), source[i], one(0)),
        name="y",
    )
    values = np.linspace(-3, 3, 40, dtype="float32")
    given = results(source, chosen, values)
    np.testing.assert_array_equal(given, np.where(values > 0.4769, values, 0))


def test_the_contexts_keep_what_the_caller_set():
    own = tir.transform.prim_func_pass(lambda f, *_: f, opt_level=0, name="own")
    config = {"tir.disable_vectorize": True, LOWER_PASSES: [(0, own)]}
    with (
        PassContext(
            opt_level=1, required_pass=["A"], disabled_pass=["tir.B"], config=config
        ) as caller,
        arithmetic_lowering(),
    ):
        current = PassContext.current()
        assert not current.same_as(caller)
        assert current.opt_level == 1
        assert list(current.required_pass) == ["A"]
        assert list(current.disabled_pass) == ["tir.B"]
        assert current.config["tir.disable_vectorize"]
        assert [int(phase) for phase, _ in current.config[LOWER_PASSES]] == [0, 1, 3]


def test_both_ways_to_the_code_agree():
    values, results = tvm.nd.array(arguments()), []
    source = te.placeholder((SIZE,), name="x")
    result = te.compute((SIZE,), lambda i: gelu(source[i]), name="y")
    schedule = te.create_schedule(result.op)
    schedule[result].vectorize(schedule[result].split(result.op.axis[0], 16)[1])
    with preparing_lowering():
        module = tvm.lower(schedule, [source, result])
    module.update_func(module.get_global_var("main"), with_arithmetic(module["main"]))
    for built in (tvm.build(module, target=host_target()), computed(gelu, host_target())):
        found = tvm.nd.empty((SIZE,))
        built(values, found)
        results.append(found.numpy().view(np.uint32))
    np.testing.assert_array_equal(*results)
