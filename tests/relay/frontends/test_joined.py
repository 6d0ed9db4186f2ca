"""Several models as one Relay module."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.errors import ModelError, OptionError
from tvm_ios.relay.frontends.joined import joined_module
from tvm_ios.runtime.base.module_attributes import parts_of


def dense(units=3, width=4, name="x", dtype="float32"):
    """A product with weights that are a parameter."""
    x = relay.var(name, shape=(1, width), dtype=dtype)
    weight = relay.var("weight", shape=(units, width), dtype=dtype)
    function = relay.Function([x, weight], relay.nn.relu(relay.nn.dense(x, weight)))
    values = np.full((units, width), units, dtype)
    return tvm.IRModule.from_expr(function), {"weight": values}


def test_inputs_are_named_after_parts_and_outputs_follow_them():
    split = relay.split(relay.var("x", shape=(1, 4)), 2, axis=1)
    both = relay.Function(relay.analysis.free_vars(split.astuple()), split.astuple())
    module = joined_module(
        {"tall": dense(), "cut": (tvm.IRModule.from_expr(both), {}), "flat": dense(units=2)}
    )
    assert [each.name_hint for each in module["main"].params] == ["tall__x", "cut__x", "flat__x"]
    shapes = [list(map(int, field.shape)) for field in module["main"].ret_type.fields]
    assert shapes == [[1, 3], [1, 2], [1, 2], [1, 2]]
    assert [(each.name, each.inputs, each.outputs) for each in parts_of(module)] == [
        ("tall", ("tall__x",), (0,)),
        ("cut", ("cut__x",), (1, 2)),
        ("flat", ("flat__x",), (3,)),
    ]


def test_a_shared_input_is_one():
    module = joined_module({"a": dense(), "b": dense(units=2)}, share=["x"])
    assert [each.name_hint for each in module["main"].params] == ["x"]
    assert [each.inputs for each in parts_of(module)] == [("x",), ("x",)]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        ("y", r"'y' is to be shared, but no part has it; inputs are .*x"),
        ("mask", "only part 'c' has it"),
        ("x", r"shapes or types differ \(a: float32 \[1, 4\], b: float32 \[1, 5\]"),
    ],
)
def test_an_input_that_cannot_be_shared_is_refused(share, told):
    models = {"a": dense(), "b": dense(width=5), "c": dense(name="mask")}
    with pytest.raises(OptionError, match=told):
        joined_module(models, share=[share])


def test_errors_name_the_part():
    mod, _ = dense()
    with pytest.raises(ModelError, match=r"part 'b': .*'weight'"):
        joined_module({"a": dense(), "b": (mod, {})})
    with pytest.raises(ModelError, match="part 'b': expected a tvm.IRModule, got str"):
        joined_module({"a": dense(), "b": ("net", {})})


def test_a_single_model_has_no_parts():
    assert parts_of(dense()[0]) == ()
