"""Random branching networks: every executor gives the bits of stock ``GraphModule``.

Buffers are poisoned before they are written and after their last reader, and lanes are delayed at
random, so a plan that lets two live tensors share bytes gives wrong bits.
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plan.test_image import in_parts
from tests.runtime.reference_executor import ReferenceExecutor
from tvm_ios.errors import ExecutionError, OptionError
from tvm_ios.host.processor import usable_cores
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.plan import launches_before
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.native_runtime import DLTensor, shared_runtime
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.cpu.lane_executor import _with_barriers, executor_here

_QUICK = (6, 9, 12)
_LEVELS = (2, 3)


@pytest.fixture(scope="module")
def load_built(build_random):
    """A random module; its kernels stay loaded."""

    @cache
    def load(seed: int, size: int, opt_level: int):
        built = build_random(seed=seed, size=size, opt_level=opt_level)
        return built, KernelLibrary(built.path, shared_runtime())

    return load


def memory_for(plan, built):
    import tvm

    params = {name: tvm.nd.array(value) for name, value in built.factory.get_params().items()}
    memory = PlanMemory(plan, params)
    named = {entry.name: entry.tensor for entry in plan.inputs}
    memory.array(named["data"]).copyfrom(built.input)
    return memory


def assert_bit_equal(memory, built):
    for tensor, expected in zip(memory.plan.outputs, built.expected, strict=True):
        np.testing.assert_array_equal(
            memory.array(tensor).numpy().view(np.uint32), expected.view(np.uint32)
        )


def check_parts(executor, memory, built):
    """Each part alone gives its output, whatever the others left in the memory they share."""
    for place, expected in enumerate(built.expected):
        part = executor.of_parts(1 << place)
        part.run()
        got = memory.array(memory.plan.outputs[place]).numpy()
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))
        assert {event.operator for event in part.trace(1)} <= {
            launch.operator for launch in memory.plan.launches
        }


def check_schedule(load_built, place_built, seed, size, opt_level, schedule):
    """One network under one random schedule, on 1 to 4 lanes, with every debug knob on."""
    built, library = load_built(seed, size, opt_level)
    chooser = random.Random(schedule)
    lanes = chooser.choice((1, 2, 2, 3, 4))
    plan = in_parts(lower_plan(built.graph, place_built(built, schedule), lanes=lanes))
    memory = memory_for(plan, built)
    executor = executor_here(
        plan,
        library,
        memory,
        options=LaneOptions(
            oversubscribe=True, jitter_seed=schedule + 1, barriers=chooser.random() < 0.3
        ),
        poison=True,
    )
    for _ in range(4):
        executor.run()
        assert_bit_equal(memory, built)
    check_parts(executor, memory, built)
    executor.close()
    reference = ReferenceExecutor(plan, library, memory, order_seed=schedule, poison=True)
    reference.run()
    assert_bit_equal(memory, built)


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(seed=st.sampled_from(_QUICK), level=st.sampled_from(_LEVELS), schedule=st.integers(0, 10**6))
def test_bit_equal_to_stock(load_built, place_built, seed, level, schedule):
    check_schedule(load_built, place_built, seed, 12, level, schedule)


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(5, marks=pytest.mark.slow(4)),
        pytest.param(100, marks=[pytest.mark.full, pytest.mark.slow(25)]),
    ],
)
def test_bit_equal_to_stock_on_more_graphs(load_built, place_built, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 10**6),
        size=st.integers(2, 12),
        level=st.sampled_from(_LEVELS),
        schedule=st.integers(0, 10**6),
    )
    def check(seed, size, level, schedule):
        for offset in range(6):  # building a graph is most of the work
            check_schedule(load_built, place_built, seed, size, level, schedule + offset)

    check()


def test_barriers_let_a_group_wait_for_the_whole_stage_before(random_graph):
    plan = lower_plan(*random_graph(random.Random(7)), lanes=2)
    ordered = _with_barriers(plan)
    assert plan.num_stages > 2
    before = launches_before(ordered.groups)
    for group in ordered.groups:
        earlier = [other for other in ordered.groups if other.stage < group.stage]
        needed = sum(1 << launch for other in earlier for launch in other.launches)
        assert not needed & ~before[group.launches[0]]
    assert replace(ordered, groups=plan.groups) == plan


@pytest.fixture
def small(load_built, place_built):
    """A loaded module, its plan for two lanes, and its memory."""
    built, library = load_built(_QUICK[2], 12, 2)
    plan = lower_plan(built.graph, place_built(built, 5), lanes=2)
    return built, library, plan, memory_for(plan, built)


@pytest.mark.slow(1)
def test_views_drop_kernels_here(small):
    built, _, plan, _ = small
    kernels = {launch.operator_index for launch in plan.launches}
    assert any(view and index not in kernels for index, view in enumerate(built.views))


def test_poison_reveals_buffers_that_share_bytes_while_alive(small):
    built, library, plan, _ = small
    broken = replace(
        plan,
        buffers=tuple(
            buffer if buffer.arena_offset is None else replace(buffer, arena_offset=0)
            for buffer in plan.buffers
        ),
    )
    memory = memory_for(broken, built)
    executor_here(broken, library, memory, poison=True).run()
    with pytest.raises(AssertionError):
        assert_bit_equal(memory, built)


def test_trace_tells_every_launch(small):
    _, library, plan, memory = small
    executor = executor_here(plan, library, memory)
    events = executor.trace()
    assert sorted(event.operator for event in events) == sorted(
        launch.operator for launch in plan.launches
    )
    assert all(0 <= event.start_ns <= event.end_ns for event in events)
    assert {event.lane for event in events} <= {0, 1}
    ends = {event.operator: event.end_ns for event in events}
    starts = {event.operator: event.start_ns for event in events}
    for group in plan.groups:
        first = plan.launches[group.launches[0]].operator
        for dependency in group.dependencies:
            last = plan.launches[plan.groups[dependency].launches[-1]].operator
            assert ends[last] <= starts[first]


def test_a_trace_of_one_run_is_one_run(small, monkeypatch):
    _, library, plan, memory = small
    executor = executor_here(plan, library, memory)
    numbers = []
    run = executor._pool.run

    def counted(program, *, number, assemble):
        numbers.append(number)
        run(program, number=number, assemble=assemble)

    monkeypatch.setattr(executor._pool, "run", counted)
    assert len(executor.trace(1)) == len(executor.trace(3)) == len(plan.launches)
    assert numbers == [1, 3]


def test_timed_runs_compute_the_same(small):
    built, library, plan, memory = small
    executor = executor_here(plan, library, memory)
    assert executor.time_ns(20) > 0
    assert_bit_equal(memory, built)


def test_a_kernel_error_names_its_operator(small):
    built, library, plan, memory = small
    executor = executor_here(plan, library, memory)
    victim = plan.launches[len(plan.launches) // 2]
    reference = ReferenceExecutor(plan, library, memory)
    natives = [
        DLTensor.from_address(loaded.tensor(victim.outputs[0]))
        for loaded in (executor._loaded, reference._loaded)
    ]
    kept = natives[0].ndim
    try:
        for runner, native in zip((executor, reference), natives, strict=True):
            native.ndim = 7
            with pytest.raises(ExecutionError, match=victim.kernel) as caught:
                runner.run()
            assert "ndim" in str(caught.value)
    finally:
        for native in natives:
            native.ndim = kept
    executor.run()
    assert_bit_equal(memory, built)


def test_two_executors_and_stock_share_a_library(small):
    import tvm
    from tvm.contrib import graph_executor

    built, library, plan, _ = small
    stock = graph_executor.GraphModule(library.module["default"](tvm.cpu()))
    stock.set_input("data", built.input)
    others = [(memory_for(plan, built), seed) for seed in (1, 2)]
    wrong = []

    def work(run, check):
        for _ in range(30):
            run()
            try:
                check()
            except AssertionError as error:
                wrong.append(error)

    def check_stock():
        np.testing.assert_array_equal(stock.get_output(0).numpy(), built.expected[0])

    threads = [threading.Thread(target=work, args=(stock.run, check_stock))]
    for other, seed in others:
        executor = executor_here(plan, library, other, options=LaneOptions(jitter_seed=seed))
        check = partial(assert_bit_equal, other, built)
        threads.append(threading.Thread(target=work, args=(executor.run, check)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong


def test_more_lanes_than_cores_are_refused(small):
    _, library, plan, memory = small
    cores = len(usable_cores())
    with pytest.raises(OptionError, match=f"lanes is {cores + 1}, .* {cores} cores"):
        executor_here(plan, library, memory, lanes=cores + 1)


def test_a_closed_executor_refuses_to_run(small):
    _, library, plan, memory = small
    executor = executor_here(plan, library, memory)
    executor.run()
    executor.close()
    with pytest.raises(ExecutionError, match="closed"):
        executor.run()
