from __future__ import annotations

import pytest
import tvm

from tvm_ios.errors import ModelError
from tvm_ios.relax.target import host_target, resolve_target


def test_command_lines_become_options():
    target = resolve_target("llvm -mcpu=haswell -mattr=+f16c,+fma -num-cores=2")
    assert target.attrs["mcpu"] == "haswell"
    assert list(target.attrs["mattr"]) == ["+f16c", "+fma"]
    assert target.attrs["num-cores"] == 2


def test_this_machine_is_the_default():
    assert str(resolve_target(None)) == str(host_target())
    assert host_target().kind.name == "llvm"
    assert str(resolve_target(str(host_target()))) == str(host_target())


@pytest.mark.parametrize("given", ["cuda -arch=sm_90", {"kind": "cuda", "arch": "sm_90"}])
def test_a_gpu_has_a_host(given):
    target = resolve_target(given)
    assert (target.kind.name, target.attrs["arch"]) == ("cuda", "sm_90")
    assert target.host.kind.name == "llvm"


def test_targets_of_tvm_are_taken():
    target = tvm.target.Target({"kind": "llvm", "mcpu": "haswell"})
    assert str(resolve_target(target)) == str(resolve_target({"kind": "llvm", "mcpu": "haswell"}))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nonsense", "TVM does not have target 'nonsense'"),
        ({"kind": "llvm", "mcpu": "z80"}, "does not know the processor 'z80'; give another mcpu"),
        ("opencl", "is neither a CPU nor a GPU of NVIDIA"),
    ],
)
def test_others_are_refused(target, message):
    with pytest.raises(ModelError, match=message):
        resolve_target(target)
