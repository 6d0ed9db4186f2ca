"""Values of a function: the axes they go along, and functions that have none."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.relay.row_kernels.norm_cases import typed
from tvm_ios.relay.row_kernels.reader import read_computation
from tvm_ios.relay.row_kernels.values import UnsuitableError

TARGET = tvm.target.Target("llvm")


def test_axes_are_cut_for_every_shape():
    x = relay.var("x", shape=(1, 8, 5, 5))
    groups = relay.reshape(x, (1, 4, -1))
    centred = groups - relay.mean(groups, 2, keepdims=True)
    scale = relay.var("scale", shape=(8, 1, 1))
    found = read_computation(typed(relay.reshape(centred, (1, 8, 5, 5)) * scale), TARGET)
    assert found.extents == (4, 2, 5, 5)
    assert found.reduced == (False, True, True, True)


def test_values_are_read_once_for_the_same_place():
    x = relay.var("x", shape=(3, 4))
    off = x - relay.mean(x, 1, keepdims=True)
    found = read_computation(typed(off * off), TARGET)
    reduced = [value for value in found.values if value.combiner is not None]
    assert len(reduced) == 1
    assert found.values[-1].reads == found.values[-1].reads[:1]
    assert not found.values[-1].on_row


@pytest.mark.parametrize(
    "change",
    [
        lambda x: relay.strided_slice(x, [0, 0], [4, 6], [1, 2]),
        lambda x: relay.nn.pad(x, ((0, 0), (1, 1))),
        lambda x: relay.concatenate([x, x], 1),
        lambda x: relay.mean(x, 1),
    ],
)
def test_other_operators_are_unsuitable(change):
    x = relay.var("x", shape=(4, 6))
    with pytest.raises(UnsuitableError):
        read_computation(typed(change(x - relay.mean(x, 1, keepdims=True))), TARGET)
