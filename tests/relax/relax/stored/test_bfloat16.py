"""Values of prepared Relax models that become bfloat16, and how far off results are."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.bfloat16 import nearest, widened
from tests.relax.networks import TARGET, Network, answers, random_network, squeezenet
from tvm_ios.compile.built_model import build_prepared
from tvm_ios.compile.dialects.dialect import in_precision
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.relax.extract import extract, functions_of
from tvm_ios.relax.prepare import prepare, with_low_precision
from tvm_ios.relax.stored.bfloat16 import low_values
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


def product(net, value, columns=8):
    return net.emit(relax.op.matmul(value, net.constant(int(value.ty.shape[1]), columns)))


def prepared(body, *shape):
    return prepare(Network(*(shape or (2, 8))).build(body), None, TARGET)


def chosen(model):
    """Kinds of the operators whose results are bfloat16, and whose weights are."""
    kinds = [operator.kind for operator in model.extraction.graph.operators]
    low = low_values(model.extraction).most()
    return tuple([kinds[index] for index in each] for each in (low.results, low.weights))


def ran(compiled, value):
    with compiled.executor(options=LaneOptions(oversubscribe=True)) as executor:
        executor.run(x=value)
        count = executor.get_num_outputs()
        return [executor.get_output(number).numpy() for number in range(count)]


def test_what_lies_between_products_is_rounded_and_the_end_is_not():
    def body(net):
        middle = net.emit(relax.op.nn.softmax(product(net, product(net, net.x))))
        return net.emit(relax.op.sum(product(net, middle), axis=1))

    results, weights = chosen(prepared(body))
    assert results == ["matmul", "matmul", "softmax"]
    assert weights == ["matmul"] * 3


def test_what_is_read_as_places_and_what_norms_read_is_float32():
    def places(net):
        best = net.emit(relax.op.argmax(product(net, net.x), axis=1, keepdims=True))
        return product(net, net.emit(relax.op.astype(best, "float32")))

    assert chosen(prepared(places)) == ([], ["matmul"] * 2)

    def norm(net):
        scales = [net.constant(8) for _ in range(2)]
        made = relax.op.nn.layer_norm(product(net, net.x), *scales, axes=[-1])
        return product(net, net.emit(made))

    assert chosen(prepared(norm))[0] == []


@pytest.mark.parametrize(
    ("layout", "groups", "slides"),
    [("NHWC", 32, True), ("NCHW16c", 32, True), (None, 32, False), ("NHWC", 1, False)],
)
def test_windows_with_loops_of_ours_take_either_type(layout, groups, slides):
    def body(net):
        weights = net.constant(32, 32 // groups, 3, 3)
        return net.emit(relax.op.nn.conv2d(net.x, weights, padding=1, groups=groups))

    model = prepare(Network(1, 32, 8, 8).build(body), None, TARGET, image_layout=layout)
    found = low_values(model.extraction).operators
    assert [each.own_loops for each in found if each.is_product] == [slides]


def test_kernels_read_and_write_what_their_notes_say():
    model = prepared(lambda net: product(net, product(net, net.x)))
    low = with_low_precision(model, low_values(model.extraction).most())
    first, second = functions_of(low.extraction)
    assert (first.stored, first.rounded_to) == ((None, IN_BFLOAT16), IN_BFLOAT16)
    assert (second.stored, second.rounded_to) == ((IN_BFLOAT16, IN_BFLOAT16), None)
    assert [each.dtype for each in second.parameters] == ["bfloat16"] * 2
    assert all(call.result.dtype == "float32" for call in (*first.calls, *second.calls))
    value, (weight, other) = np.float32([[0.1] * 8] * 2), _weights(model)
    exact = value @ widened(nearest(weight))
    wanted = widened(nearest(exact)) @ widened(nearest(other))
    built = build_prepared(low)
    (found,) = ran(lower_schedule(built, sequential_schedule(built.graph), lanes=1), value)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def _weights(model):
    reads = [call.call.args[1].fields[1] for call in model.extraction.line.calls]
    return [each.value.numpy() for each in reads]


def test_weights_are_the_nearest_numbers_and_shared_once():
    def body(net):
        weight = net.constant(8, 8)
        first = net.emit(relax.op.matmul(net.x, weight))
        return net.emit(relax.op.matmul(first, weight))

    model = prepared(body)
    low = with_low_precision(model, low_values(model.extraction).most())
    one, other = (call.call.args[1].fields[1] for call in low.extraction.line.calls)
    assert one.same_as(other)
    bits = np.asarray(one.value.numpy()).view("uint16")
    np.testing.assert_array_equal(bits, nearest(_weights(model)[0]))


@pytest.mark.slow(1)
def test_views_stay_views():
    mod, params, _ = squeezenet()
    model = prepare(mod, params, TARGET)
    low = low_values(model.extraction).most()
    made = with_low_precision(model, low)
    operators, others = (each.extraction.graph.operators for each in (model, made))
    assert [each.kind for each in others] == [each.kind for each in operators]
    assert [each.view for each in others] == [each.view for each in operators]
    views = [index for index, each in enumerate(operators) if each.view]
    assert {*views} & {*low.results}


def test_values_that_cannot_be_bfloat16_leave_the_model_alone():
    model = prepared(lambda net: product(net, product(net, net.x)))
    assert in_precision(model, None) is model
    assert in_precision(model, LowPrecision(results=(1,), weights=())) is None
    low = low_values(model.extraction).most()
    twice = [in_precision(model, low).extraction.graph.fingerprint() for _ in range(2)]
    assert twice[0] == twice[1] != model.extraction.graph.fingerprint()


@pytest.mark.parametrize("columns", [8, 37])
@pytest.mark.parametrize(
    "function",
    [relax.op.erf, relax.op.exp, relax.op.nn.softmax, relax.op.sigmoid, relax.op.tanh],
    ids=lambda each: each.__name__,
)
def test_functions_of_bfloat16_are_those_of_its_numbers(function, columns):
    def body(net):
        return product(net, net.emit(function(product(net, net.x, columns))))

    exact = prepared(body)
    made = with_low_precision(exact, low_values(exact.extraction).most())
    value = np.random.default_rng(1).uniform(-1, 1, (2, 8)).astype("float32")
    built = build_prepared(made)
    (found,) = ran(lower_schedule(built, sequential_schedule(built.graph), lanes=1), value)
    (wanted,) = answers(exact.module, value)
    assert np.abs(found - wanted).max() <= 0.05 * np.abs(wanted).max()


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 3 else pytest.mark.full) for n in range(8)]
)
def test_random_networks_are_close_to_float32_in_any_order(seed):
    mod, value = random_network(seed)
    exact = prepare(mod, None, TARGET)
    low = low_values(exact.extraction).most()
    made = with_low_precision(exact, low)
    machine = answers(made.module, value)
    built = build_prepared(made)
    for schedule in (sequential_schedule(built.graph), greedy_schedule(built.graph)):
        compiled = lower_schedule(built, schedule, lanes=2)
        assert compiled.schedule.low == low
        for found, wanted in zip(ran(compiled, value), machine, strict=True):
            np.testing.assert_array_equal(found, wanted)
    for found, wanted in zip(machine, answers(exact.module, value), strict=True):
        assert np.abs(found - wanted).max() <= 0.1 * np.abs(wanted).max()
    again = extract(made.module).graph.fingerprint()
    assert again == made.extraction.graph.fingerprint()
