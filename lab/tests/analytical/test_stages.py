"""Stage prices between their bounds, for random stages, and what launching changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios_lab.analytical.gpu import GPU, GPU_NAMES
from tvm_ios_lab.analytical.gpu_kernel import Kernels
from tvm_ios_lab.analytical.gpu_work import KernelWork, copy_work, merged_work, recorded_work
from tvm_ios_lab.analytical.stages import Launching, StagePrices
from tvm_ios_lab.problems.synthetic import PrimitiveWork


@st.composite
def kernel_works(draw):
    if draw(st.booleans()):
        rows, columns = draw(st.integers(1, 4000)), draw(st.integers(1, 500))
        depth = draw(st.integers(1, 3000))
        return KernelWork(
            matrix_product=True,
            rows=rows,
            columns=columns,
            depth=depth,
            activation_bytes=4 * (rows * depth + rows * columns),
            weight_bytes=4 * columns * depth,
        )
    outputs = draw(st.integers(1, 10**6))
    return KernelWork(
        matrix_product=False, rows=outputs, columns=1, depth=5, activation_bytes=8 * outputs
    )


@st.composite
def settings(draw):
    return (
        GPU.by_name(draw(st.sampled_from(GPU_NAMES))),
        draw(st.sampled_from(Launching)),
        draw(st.sampled_from(Kernels)),
    )


def graph_of(count):
    return OperatorGraph("g", tuple(op(str(index)) for index in range(count)))


@st.composite
def staged_works(draw):
    """A stage and the kernels of its operators: up to six groups of up to three."""
    works = [
        [draw(st.lists(kernel_works(), max_size=3)) for _ in range(draw(st.integers(1, 3)))]
        for _ in range(draw(st.integers(1, 6)))
    ]
    groups, count = [], 0
    for row in works:
        groups.append(tuple(range(count, count + len(row))))
        count += len(row)
    return Stage(tuple(groups)), [work for row in works for work in row]


@pytest.mark.slow(1)
@given(staged_works(), settings())
def test_a_price_keeps_its_bounds(staged, chosen):
    stage, works = staged
    prices = StagePrices(graph_of(len(works)), works, *chosen)
    price = prices.price(stage)
    gpu, launching, _ = chosen
    assert prices.lower_bound(stage) <= price
    alone = [prices.price(Stage((group,))) for group in stage.groups]
    in_order = [prices.price(Stage(((index,),))) for index in stage.operators]
    assert max(alone) <= price
    assert price <= sum(in_order) + launching.join_ns(gpu) + 1
    assert price == prices.price(stage)


@pytest.mark.slow(1)
@given(staged_works(), settings(), st.integers(1, 1000), st.data())
def test_more_work_in_a_group_never_makes_it_cheaper(staged, chosen, more, data):
    stage, works = staged
    changed = data.draw(st.integers(0, len(works) - 1))
    longer = [
        [replace(w, depth=w.depth + more) for w in row] if index == changed else row
        for index, row in enumerate(works)
    ]
    before, after = (StagePrices(graph_of(len(works)), w, *chosen) for w in (works, longer))
    for group in stage.groups:
        assert after.price(Stage((group,))) >= before.price(Stage((group,)))
    assert after.lower_bound(stage) >= before.lower_bound(stage)


@pytest.mark.slow
@given(staged_works(), settings())
def test_spans_end_where_the_price_says(staged, chosen):
    stage, works = staged
    gpu, launching, _ = chosen
    prices = StagePrices(graph_of(len(works)), works, *chosen)
    spans = prices.spans(stage)
    assert [span.operators for span in spans] == [(i,) for group in stage.groups for i in group]
    end_ns = max(span.end_ns for span in spans)
    assert end_ns <= prices.price(stage) + 1
    if not launching.issue_ns(gpu):
        joins = sum(any(works[index] for index in group) for group in stage.groups) > 1
        assert prices.price(stage) <= end_ns + joins * launching.join_ns(gpu) + 2


@st.composite
def merges(draw):
    """Two or three convolutions that may merge, at batch one."""
    kernels = draw(st.lists(st.sampled_from([1, 3, 5]), min_size=2, max_size=3))
    side, channels = draw(st.integers(5, 40)), draw(st.integers(1, 300))
    return [
        replace(
            CONV,
            input_shape=(channels, side, side),
            out_channels=draw(st.integers(1, 300)),
            kernel=(kernel, kernel),
            padding=(kernel // 2,) * 4,
        )
        for kernel in kernels
    ]


@given(merges(), settings())
def test_a_merge_costs_at_least_its_largest_member(members, chosen):
    operators = tuple(op(str(i), convolution=member) for i, member in enumerate(members))
    works = []
    for member in members:
        outputs = member.out_channels * member.input_shape[1] ** 2
        depth = member.input_shape[0] * member.kernel[0] ** 2
        works.append(recorded_work([PrimitiveWork(outputs * (depth + 1), outputs, 1)], member))
    prices = StagePrices(OperatorGraph("g", operators), works, *chosen)
    merge = Stage(tuple((i,) for i in range(len(members))), Strategy.MERGE)
    assert prices.price(merge) == prices.lower_bound(merge)
    assert prices.price(merge) >= max(prices.price(Stage(((i,),))) for i in range(len(members)))


def test_a_merge_adds_its_bias_by_one_kernel_where_members_do():
    window = {"kernel": (3, 3), "padding": (1, 1, 1, 1)}
    member = replace(CONV, input_shape=(64, 28, 28), out_channels=64, epilogue="identity", **window)
    operators = tuple(op(name, convolution=member) for name in "ab")
    outputs = 64 * 784
    works = recorded_work([PrimitiveWork(outputs * 577, outputs, 1)], member)
    biased = (*works, copy_work(works[0]))
    both = copy_work(merged_work([member, member], [works[0]] * 2))

    def prices(*rows):
        return StagePrices(
            OperatorGraph("g", operators), rows, V100, Launching.GRAPH, Kernels.TUNED
        )

    merge = Stage(((0,), (1,)), Strategy.MERGE)
    bias_ns = prices([both], [both]).price(Stage(((0,),)))
    merged_ns = prices(works, works).price(merge)
    assert prices(biased, biased).price(merge) == pytest.approx(merged_ns + bias_ns, abs=1)


SMALL = KernelWork(matrix_product=False, rows=1000, columns=1, depth=1, activation_bytes=8000)
V100 = GPU.by_name("v100")


def price(launching, *groups):
    works = [[SMALL]] * sum(map(len, groups))
    return StagePrices(graph_of(len(works)), works, V100, launching, Kernels.TUNED).price(
        Stage(tuple(groups))
    )


def test_a_graph_launches_faster_than_streams():
    graph, streams = (price(launching, (0,)) for launching in (Launching.GRAPH, Launching.STREAMS))
    assert graph < streams
    assert streams == V100.issue_ns  # so small a kernel waits for the host


def test_the_host_issues_one_kernel_after_another():
    eight = [(index,) for index in range(8)]
    assert price(Launching.GRAPH, *eight) < price(Launching.GRAPH, (0,)) + V100.event_ns + 1000
    assert price(Launching.STREAMS, *eight) >= 7 * V100.issue_ns
    waited = price(Launching.SYNCHRONISED, *eight) - price(Launching.STREAMS, *eight)
    # Nothing is queued when the host has waited, so the next launch is waited for as well.
    assert waited == V100.synchronise_ns + V100.issue_ns - V100.event_ns


@pytest.mark.parametrize("launching", Launching)
def test_one_group_joins_nothing(launching):
    works = [[SMALL], []]
    prices = StagePrices(graph_of(2), works, V100, launching, Kernels.TUNED)
    assert prices.price(Stage(((0,), (1,)))) == prices.price(Stage(((0,),)))
    assert prices.price(Stage(((1,),))) == 0
