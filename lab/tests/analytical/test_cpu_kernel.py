from __future__ import annotations

from dataclasses import replace

from tvm_ios_lab.analytical.cpu import CPU
from tvm_ios_lab.analytical.cpu_kernel import ACHIEVABLE_ARITHMETIC, CpuKernel
from tvm_ios_lab.analytical.gpu_work import KernelWork

LARGE = KernelWork(
    matrix_product=True,
    rows=56 * 56,
    columns=256,
    depth=1024,
    activation_bytes=4 << 20,
    weight_bytes=1 << 20,
)
SMALL = replace(LARGE, rows=49, columns=16, depth=64, activation_bytes=16384, weight_bytes=4096)


def kernel(work, cores, *, weights_in_l3=True):
    return CpuKernel.make(work, CPU.of_cores(cores), weights_in_l3=weights_in_l3)


def test_a_large_product_reaches_its_share_of_the_peak():
    cpu = CPU.of_cores(1)
    taken_ns = kernel(LARGE, 1).on_lanes(cpu, 1, away=0.0)
    assert 0.98 < LARGE.flops / taken_ns / (cpu.flops_per_ns * ACHIEVABLE_ARITHMETIC) < 1


def test_help_pays_for_a_large_kernel_and_not_for_a_small_one():
    cpu = CPU.of_cores(16)
    large, small = kernel(LARGE, 16), kernel(SMALL, 16)
    assert large.on_lanes(cpu, 16, away=0.0) < large.on_lanes(cpu, 1, away=0.0) / 10
    assert small.on_lanes(cpu, 16, away=0.0) > small.on_lanes(cpu, 1, away=0.0)
    assert small.fastest(cpu, away=0.0) == (small.on_lanes(cpu, 1, away=0.0),) * 16
    assert len(set(large.fastest(cpu, away=0.0))) > 8


def test_channels_that_do_not_fill_a_vector_cost_as_much_as_those_that_do():
    assert kernel(replace(SMALL, columns=9), 1).core_ns == kernel(SMALL, 1).core_ns
    assert kernel(replace(SMALL, columns=17), 1).core_ns == 2 * kernel(SMALL, 1).core_ns


def test_data_that_lies_in_another_cache_and_weights_from_memory_take_longer():
    cpu = CPU.of_cores(2)
    near = kernel(SMALL, 2).on_lanes(cpu, 1, away=0.0)
    assert kernel(SMALL, 2).on_lanes(cpu, 1, away=0.5) > near
    thin = replace(LARGE, rows=1, activation_bytes=4096)
    far = kernel(thin, 2, weights_in_l3=False)
    assert far.on_lanes(cpu, 1, away=0.0) > kernel(thin, 2).on_lanes(cpu, 1, away=0.0)
    assert far.memory_bytes == thin.weight_bytes
