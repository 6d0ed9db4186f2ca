"""Kernels of our own in place of those of TVM: when, and who wins over them."""

from __future__ import annotations

import pytest
import tvm
from tvm import auto_scheduler, relay

from tvm_ios.relay.context import ANSOR_SWITCH, quiet_lookups
from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.kernels import lower_kernels
from tvm_ios.relay.prepare import prepare
from tvm_ios.support.exact_bits import exact_bits

TARGET = tvm.target.Target("llvm -mcpu=core-avx2")


class Answering(auto_scheduler.dispatcher.DispatchContext):
    """Context with a schedule for every reduction: the one without a step."""

    def query(self, target, key, has_complex_op, dag, name):
        return dag.get_init_state() if has_complex_op else None


class Silent(auto_scheduler.dispatcher.DispatchContext):
    """Context without a schedule."""

    def query(self, target, key, has_complex_op, dag, name):
        return None


def is_own():
    """Whether softmax has a kernel of our own, which TVM's way never lowers."""
    x = relay.var("x", shape=(4, 20))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(x)))
    calls = kernel_calls(prepare(module, None, TARGET).module["main"].body)
    ((_, kernel),) = lower_kernels(calls, TARGET)
    assert kernel.stem == "tvmgen_default_fused_nn_softmax"
    return "from_legacy_te_schedule" not in kernel.function.attrs


def test_softmax_is_our_own_unless_bits_are_exact():
    assert is_own()
    with exact_bits(True):
        assert not is_own()


@pytest.mark.parametrize("context", [Answering, Silent])
def test_a_record_of_auto_scheduler_wins(context):
    switch = tvm.transform.PassContext(opt_level=3, config={ANSOR_SWITCH: True})
    with quiet_lookups(), switch, context():
        assert is_own() == (context is Silent)
