from __future__ import annotations

import re

import pytest
import tvm

from tests.relax.networks import inception_block
from tests.relax.runtime.built import Kernels
from tvm_ios.errors import ModelError
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.schedules.gpu import in_threads, with_default_loops
from tvm_ios.relax.target import resolve_target

TARGET = "cuda -arch=sm_90"


@pytest.mark.slow(1)
def test_every_kernel_gets_threads_and_keeps_its_name():
    prepared = prepare(inception_block()[0], None, TARGET)
    kernels = {
        variable.name_hint: function
        for variable, function in prepared.module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }
    assert "concatenate" in kernels  # a view runs where a merge leaves it none
    assert not any(map(in_threads, kernels.values()))
    made = with_default_loops(tvm.IRModule(kernels), prepared.target)
    assert all(in_threads(made[name]) for name in kernels)
    assert not any(map(in_threads, kernels.values()))
    named = {name: made[name].with_attr("global_symbol", name) for name in kernels}
    device = tvm.tirx.build(tvm.IRModule(named), target=prepared.target).imports[0]
    launched = re.findall(r"void __launch_bounds__\(\d+\) (\w+)_kernel\(", source_of(device))
    assert set(launched) == set(kernels)


def source_of(device) -> str:
    """CUDA source of a module."""
    return device.inspect_source("cuda")


def test_what_no_rule_schedules_is_refused():
    """TVM would compile it for the processor, without a word."""
    with pytest.raises(ModelError, match=r"kernel '\w+' cannot run on a GPU"):
        with_default_loops(Kernels, resolve_target(TARGET))
