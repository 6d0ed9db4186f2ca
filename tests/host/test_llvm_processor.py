"""Mistyped processors and features are refused for the triple of their target, before LLVM."""

from __future__ import annotations

import pytest
import tvm

import tvm_ios
from tvm_ios.errors import ModelError
from tvm_ios.host.llvm_processor import require_known_processor
from tvm_ios.passes import ScheduleOperators

ARM = "llvm -mtriple=aarch64-linux-gnu"


@pytest.mark.parametrize(
    "target",
    [
        "llvm",
        "llvm -mcpu=skylake-avx512 -mattr=-avx512f,+fma",
        "llvm -mattr=+retpoline",  # no processor has it
        f"{ARM} -mattr=+neon,+v8.2a,+dotprod",
        f"{ARM} -mcpu=cortex-a72",
        "llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon,+vfp4",
        "llvm -mtriple=foo-bar -mcpu=x",  # LLVM refuses it when it compiles
    ],
)
def test_what_llvm_knows_is_taken(target):
    require_known_processor(tvm.target.Target(target))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("llvm -mcpu=skylake-avx51", "no processor 'skylake-avx51'; did you mean 'skylake-avx512'"),
        ("llvm -mcpu=native", "no processor 'native'; give another, or leave it out"),
        ("llvm -mattr=+avx2,+avx22", "no feature 'avx22'; did you mean 'avx2'"),
        (f"{ARM} -mcpu=cortex-a7", "no processor 'cortex-a7'; did you mean 'cortex-a7"),
        (f"{ARM} -mcpu=skylake", "no processor 'skylake'"),
        (f"{ARM} -mattr=+neonn", "no feature 'neonn'; did you mean 'neon'"),
    ],
)
def test_what_it_does_not_know_is_refused_with_the_nearest_name(target, told):
    with pytest.raises(ModelError, match=told):
        require_known_processor(tvm.target.Target(target))


@pytest.mark.parametrize(
    "take",
    [
        tvm_ios.tune,
        lambda mod, params, target: tvm_ios.compile_schedule(mod, params, target=target),
        lambda _, params, target: ScheduleOperators(target=target, params=params),
    ],
    ids=["tune", "compile_schedule", "pass"],
)
def test_every_way_to_compile_refuses_it(take, fork):
    with pytest.raises(ModelError, match="did you mean 'skylake-avx512'"):
        take(*fork, "llvm -mcpu=skylake-avx51")
