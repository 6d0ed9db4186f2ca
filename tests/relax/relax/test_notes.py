from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tests.relax.relax.modules import Branches
from tvm_ios.core.fused_function import PrimitiveCall, TensorType
from tvm_ios.errors import ModelError
from tvm_ios.relax.build import build
from tvm_ios.relax.extract import kernel_of
from tvm_ios.relax.notes import COMPUTES, noted_function
from tvm_ios.relax.prepare import prepare
from tvm_ios.support.exact_bits import exact_bits

IMAGE = TensorType((1, 8, 6, 6), "float32")
ROW = TensorType((1, 8, 1, 1), "float32")
NUMBER = TensorType((), "float32")


def notes(body, *shape: int):
    """Functions of the kernels of a network, in the order of their calls."""
    extraction = prepare(Network(*shape).build(body), None, TARGET).extraction
    kernels = [kernel_of(extraction.module, call) for call in extraction.line.calls]
    return [noted_function(kernel) for kernel in kernels]


def test_a_fused_kernel_says_what_all_its_parts_compute():
    def body(net):
        data = net.emit(relax.op.nn.conv2d(net.x, net.constant(8, 8, 3, 3), padding=1))
        biased = net.emit(relax.op.add(data, net.constant(1, 8, 1, 1)))
        halved = net.emit(relax.op.multiply(relax.const(0.5, "float32"), biased))
        return net.emit(relax.op.clip(net.emit(relax.op.subtract(net.x, halved)), 0, 6))

    (found,) = notes(body, 1, 8, 6, 6)
    assert found.parameters == (IMAGE, TensorType((8, 8, 3, 3), "float32"), ROW)
    convolution, *others = found.calls
    assert (convolution.operator, convolution.operands) == ("nn.conv2d", (0, 1))
    assert convolution.wholes("padding") == (1, 1, 1, 1)
    assert convolution.attribute("data_layout") == "NCHW"
    assert [(call.operator, call.operands) for call in others] == [
        ("add", (3, 2)),
        ("constant", ()),
        ("multiply", (5, 4)),
        ("subtract", (0, 6)),
        ("clip", (7,)),
    ]
    assert others[1] == PrimitiveCall(
        operator="constant", operands=(), result=NUMBER, attributes=(("value", 0.5),)
    )
    assert (others[-1].attribute("a_min"), others[-1].attribute("a_max")) == (0, 6)


def test_twins_share_a_kernel_whatever_their_operands_are():
    def body(net):
        squared = net.emit(relax.op.multiply(net.x, net.x))
        return relax.Tuple([squared, net.emit(relax.op.multiply(net.x, net.constant(4, 6)))])

    extraction = prepare(Network(4, 6).build(body), None, TARGET).extraction
    first, second = extraction.line.calls
    assert first.call.args[0].same_as(second.call.args[0])
    (call,) = noted_function(kernel_of(extraction.module, first)).calls
    assert call.operands == (0, 1)


def test_operators_without_a_note_leave_none():
    def body(net):
        made = net.emit(relax.op.nn.relu(net.x))
        return net.emit(relax.op.nn.relu(net.emit(relax.op.sin(made))))

    assert notes(body, 4, 6) == [None]


def test_kernels_of_others_compute_what_nobody_knows():
    assert build(Branches, TARGET).describe() == [None, None, None]


@pytest.mark.parametrize("text", ["[]", "{", '{"parameters": [[[1], 2]], "calls": []}'])
def test_a_note_of_somebody_else_is_refused(text):
    noted = Branches["twice"].with_attr(COMPUTES, text)
    with pytest.raises(ModelError, match=f"attribute {COMPUTES} of a kernel.*prepare the module"):
        noted_function(noted)


def test_notes_are_what_a_printed_module_has():
    def body(net):
        return net.emit(relax.op.matmul(net.x, net.constant(6, 3)))

    module = prepare(Network(4, 6).build(body), None, TARGET).module
    again = tvm.script.from_source(module.script(show_meta=True))
    described = [build(each, TARGET).describe() for each in (module, again)]
    assert described[0] == described[1]
    (function,) = described[0]
    assert function.constants == {1}


def test_cubes_are_noted_as_powers_and_computed_without_a_warning(capfd):
    network = Network(3, 4)
    mod = network.build(lambda net: net.emit(relax.op.power(net.x, relax.const(3.0, "float32"))))
    prepared = prepare(mod, None, TARGET)
    assert "Warning" not in capfd.readouterr().err
    (call,) = prepared.extraction.line.calls
    found = noted_function(kernel_of(prepared.module, call))
    assert [each.operator for each in found.calls] == ["constant", "power"]
    value = network.value()
    np.testing.assert_array_equal(answers(prepared.module, value)[0], value * value * value)
    with exact_bits(True):
        exact = prepare(mod, None, TARGET).module
    assert "T.pow" in exact.script()
