from __future__ import annotations

import tomllib
from importlib import import_module

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, answers, inception_block
from tests.relax.relax.modules import Branches
from tvm_ios.driver.dialects.relax_pipeline import register
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.schedules.gpu import in_threads
from tvm_ios.relax.target import resolve_target


def test_tvm_finds_the_function_that_registers_it(project_root):
    project = tomllib.loads((project_root / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["tvm.backends"]["tvm_ios"].partition(":")
    assert getattr(import_module(module), name) is register


@pytest.mark.slow
def test_a_module_compiled_by_name_has_the_same_bits():
    register()
    mod, value = inception_block()
    target = tvm.target.Target(TARGET)
    executable = tvm.compile(mod, target=target, relax_pipeline="tvm_ios")
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(value))
    (wanted,) = answers(prepare(mod, None, TARGET).module, value)
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_stages_are_functions_of_the_virtual_machine():
    register()
    pipeline = relax.get_pipeline("tvm_ios", scheduler="sequential", target=TARGET)
    names = {variable.name_hint for variable in pipeline(Branches).get_global_vars()}
    assert {"tvm_ios_stage_0", "tvm_ios_stage_1", "tvm_ios_stage_2"} <= names


def test_kernels_for_a_gpu_have_threads():
    """TVM's own lowering would compile them for the processor."""
    register()
    pipeline = relax.get_pipeline("tvm_ios", scheduler="sequential")
    with resolve_target("cuda -arch=sm_90"):
        made = pipeline(inception_block()[0])
    kernels = [each for each in made.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    assert kernels
    assert all(map(in_threads, kernels))
