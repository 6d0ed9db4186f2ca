"""Kernels on an idle GPU: times computed by hand, and what physics demands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios_lab.analytical.gpu import GPU, GPU_NAMES
from tvm_ios_lab.analytical.gpu_kernel import FILL_NS, RESOURCES, Kernels, kernel_time
from tvm_ios_lab.analytical.gpu_work import KernelWork

V100 = GPU.by_name("v100")
NAMES = st.sampled_from(GPU_NAMES)


def product(rows, columns, depth):
    return KernelWork(
        matrix_product=True,
        rows=rows,
        columns=columns,
        depth=depth,
        activation_bytes=4 * (rows * depth + rows * columns),
        weight_bytes=4 * columns * depth,
    )


def stream(outputs, depth=1.0):
    return KernelWork(
        matrix_product=False, rows=outputs, columns=1, depth=depth, activation_bytes=8 * outputs
    )


@st.composite
def works(draw):
    if draw(st.booleans()):
        side = st.integers(1, 1 << draw(st.integers(0, 14)))
        return product(draw(side), draw(side), draw(st.integers(1, 5000)))
    return stream(draw(st.integers(1, 10**7)), draw(st.floats(0, 100)))


@given(works(), NAMES, st.sampled_from(Kernels))
def test_no_resource_is_wanted_for_longer_than_the_kernel_takes(work, name, kernels):
    time = kernel_time(work, GPU.by_name(name), kernels=kernels)
    assert len(time.demand_ns) == len(RESOURCES)
    assert all(0 <= demand <= time.busy_ns * (1 + 1e-9) for demand in time.demand_ns)
    assert time.alone_ns == FILL_NS + time.busy_ns
    assert time.blocks >= 1


@given(works(), NAMES, st.sampled_from(Kernels), st.integers(1, 1000))
def test_more_work_is_never_cheaper(work, name, kernels, more):
    gpu = GPU.by_name(name)
    base = kernel_time(work, gpu, kernels=kernels).busy_ns
    for change in (
        {"rows": work.rows + more, "activation_bytes": work.activation_bytes + 8 * more},
        {"columns": work.columns + more} if work.matrix_product else {},
        {"depth": work.depth + more},
        {"activation_bytes": work.activation_bytes + 1000 * more},
        {"weight_bytes": work.weight_bytes + 1000 * more},
    ):
        assert kernel_time(replace(work, **change), gpu, kernels=kernels).busy_ns >= base


@given(works(), NAMES)
def test_tuned_kernels_are_never_slower_than_those_of_a_library(work, name):
    gpu = GPU.by_name(name)
    library, tuned = (kernel_time(work, gpu, kernels=kernels) for kernels in Kernels)
    assert tuned.busy_ns <= library.busy_ns


@given(works(), NAMES)
def test_weights_in_the_cache_never_hurt(work, name):
    gpu = GPU.by_name(name)
    cold, warm = (kernel_time(work, gpu, weights_in_l2=there) for there in (False, True))
    assert warm.busy_ns <= cold.busy_ns


@given(works(), NAMES)
def test_no_kernel_beats_the_data_sheet(work, name):
    gpu = GPU.by_name(name)
    time = kernel_time(work, gpu)
    assert work.flops <= time.busy_ns * gpu.flops_per_ns
    assert work.weight_bytes <= time.busy_ns * gpu.memory_gb_per_s


def test_one_block_of_a_library_kernel_by_hand():
    # 128 x 128 outputs and a depth of 1000: one block on one of 80 multiprocessors.
    time = kernel_time(product(128, 128, 1000), V100, kernels=Kernels.LIBRARY)
    # The tile of 128 x 32 is faster, for its four blocks find four multiprocessors.
    share = 64 / (64 + 4 + 3)
    block_ns = 128 * 32 * 1000 / (share * 0.7 * 64 * 1.53)
    assert time.blocks == 4
    assert time.busy_ns == pytest.approx(block_ns)
    slots, arithmetic, _, _ = time.demand_ns
    assert slots == pytest.approx(block_ns * 4 / 80)
    assert arithmetic == pytest.approx(block_ns * 4 / 80)


def test_a_tail_costs_a_wave():
    full = kernel_time(product(128 * 80, 128, 2000), V100, kernels=Kernels.LIBRARY)
    more = kernel_time(product(128 * 81, 128, 2000), V100, kernels=Kernels.LIBRARY)
    assert more.busy_ns > 1.2 * full.busy_ns


def test_a_large_stream_is_bound_by_memory():
    time = kernel_time(stream(10**7), V100)
    assert time.busy_ns == pytest.approx(8 * 10**7 / (900 * 0.8))
    assert time.demand_ns[3] == time.busy_ns


def test_a_stream_that_fits_the_cache_is_bound_by_it():
    time = kernel_time(stream(500_000), V100)
    assert time.busy_ns == pytest.approx(8 * 500_000 / (2048 * 1.53 * 0.8))
    assert time.demand_ns[2:] == (time.busy_ns, 0)
