"""Own schedules: on CPUs, on the thread that lowers, and gone afterwards."""

from __future__ import annotations

from threading import Thread

import pytest
import tvm
from tvm import relay, te, topi

from tests.relay.schedules.kernel import TARGET, lower
from tvm_ios.relay.schedules.in_force import own_schedules
from tvm_ios.support.exact_bits import exact_bits


def test_tvm_has_its_own_schedules_back() -> None:
    stock, resize = topi.x86.schedule_injective, topi.image.resize2d
    with own_schedules(TARGET):
        assert topi.x86.schedule_injective is not stock
        assert topi.image.resize2d is not resize
    assert topi.x86.schedule_injective is stock
    assert topi.image.resize2d is resize


def test_nothing_changes_for_gpus_or_exact_bits() -> None:
    stock = topi.x86.schedule_injective
    with own_schedules(tvm.target.Target("cuda -arch=sm_90")):
        assert topi.x86.schedule_injective is stock
    with exact_bits(True), own_schedules(TARGET):
        assert topi.x86.schedule_injective is stock


def test_other_threads_have_schedules_of_tvm() -> None:
    found: list[int] = []

    def ask() -> None:
        result = topi.nn.relu(te.placeholder((3, 28, 28)))
        schedule = topi.x86.schedule_injective(result)
        found.append(len(schedule[result].leaf_iter_vars))

    with own_schedules(TARGET):
        ask()
        thread = Thread(target=ask)
        thread.start()
        thread.join()
    assert found == [1, 3]


def test_passes_of_the_user_see_the_kernel_too() -> None:
    seen: list[str] = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(function: tvm.tir.PrimFunc, *_: object) -> tvm.tir.PrimFunc:
        seen.append(str(function))
        return function

    value = relay.nn.relu(relay.var("x", shape=(3, 28, 28)))
    with tvm.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": [(1, look)]}):
        lower(value)
    assert len(seen) == 1


@pytest.mark.parametrize("target", ["llvm -mtriple=aarch64-linux-gnu -mattr=+neon", "llvm"])
def test_other_processors_get_kernels(target: str) -> None:
    chosen = tvm.target.Target(target)
    for value in (
        relay.nn.relu(relay.var("x", shape=(3, 17, 17))),
        relay.mean(relay.var("x", shape=(1, 3, 17, 17)), (2, 3)),
        relay.nn.global_avg_pool2d(relay.var("x", shape=(1, 2, 7, 7, 16)), layout="NCHW16c"),
        relay.image.resize2d(relay.var("x", shape=(1, 3, 7, 7)), (14, 15)),
    ):
        kernel = lower(value, chosen)
        assert tvm.build(kernel.module(), target=tvm.target.Target(chosen, host=chosen))
