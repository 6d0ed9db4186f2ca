from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.tests.analytical.test_stages import graph_of, staged_works
from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.protocol import DescribedModel, FloorModel, LaneModel, LowerBoundModel
from tvm_ios.errors import CostError
from tvm_ios.search.ios import search_ios
from tvm_ios_lab.analytical.cpu import CPU
from tvm_ios_lab.analytical.cpu_model import AnalyticalCpuCost
from tvm_ios_lab.analytical.gpu_work import KernelWork

SMALL = KernelWork(
    matrix_product=True,
    rows=49,
    columns=32,
    depth=32,
    activation_bytes=12000,
    weight_bytes=4096,
)


def model_of(cores, works=None):
    return AnalyticalCpuCost(CPU.of_cores(cores), works=works)


@pytest.mark.slow(1)
@given(staged_works(), st.sampled_from([1, 2, 4, 16, 64]))
def test_a_price_lies_between_its_bound_and_all_operators_in_order(staged, cores):
    stage, works = staged
    graph, model = graph_of(len(works)), model_of(cores, works)
    (price,) = model.price(graph, [stage])
    (bound,) = model.lower_bound(graph, [stage])
    assert 0 < bound <= price
    in_order = sum(model.price(graph, [Stage(((index,),)) for index in stage.operators]))
    assert price <= in_order + model.cpu.signal_ns


LARGE = KernelWork(
    matrix_product=True, rows=4096, columns=256, depth=2048, activation_bytes=1 << 20
)
TINY = replace(SMALL, rows=1, columns=1, activation_bytes=8)


@st.composite
def worked_graphs(draw):
    """Inputs of each operator, and its kernel: small or tiny."""
    works = draw(
        st.lists(
            st.builds(replace, st.sampled_from([TINY, SMALL]), depth=st.integers(1, 96)), max_size=8
        )
    )
    reads = [
        [i for i in range(index) if draw(st.integers(0, 3)) == 0] for index in range(len(works))
    ]
    return reads, works


@pytest.mark.slow
@given(worked_graphs(), st.sampled_from([1, 2, 4, 16]))
# Only the first kernel of a group fetches: with the tiny one in front the last stage is cheaper.
@example(
    problem=([[], [0], [], [1]], [replace(SMALL, depth=96), TINY, replace(SMALL, depth=8), SMALL]),
    cores=2,
)
def test_the_lazy_search_loses_nothing(problem, cores):
    reads, works = problem
    operators = (
        replace(operator, predecessors=tuple(row))
        for operator, row in zip(graph_of(len(works)).operators, reads, strict=True)
    )
    graph = OperatorGraph("g", tuple(operators))
    model = model_of(cores, [(work,) for work in works])
    lazy, exhaustive = (search_ios(graph, model, lazy=each) for each in (True, False))
    assert lazy.latency_ns == exhaustive.latency_ns


def test_four_small_kernels_are_faster_side_by_side_where_there_are_lanes_for_them():
    graph, works = graph_of(4), [(SMALL,)] * 4
    together = Stage(tuple((index,) for index in range(4)))
    gains = []
    for cores in (1, 2, 4, 16):
        model = model_of(cores, works)
        alone = sum(model.price(graph, [Stage(((index,),)) for index in range(4)]))
        gains.append(alone / model.price(graph, [together])[0])
    assert gains[0] == pytest.approx(1, abs=0.001)
    assert 1 < gains[1] < gains[2] < 4
    assert gains[3] >= gains[2] * 0.9


def test_operators_take_the_same_lanes_as_stages_of_their_own():
    works = [(SMALL, LARGE), (LARGE,), ()]
    graph, model = graph_of(3), model_of(4, works)
    one, two, four, more = (model.operators_ns(graph, lanes=lanes) for lanes in (1, 2, 4, 9))
    assert one[0] > two[0] > four[0] == more[0]
    assert four[:2] == model.price(graph, [Stage(((0,),)), Stage(((1,),))])
    assert one[:2] == model_of(1, works).price(graph, [Stage(((0,),)), Stage(((1,),))])
    assert one[2] == four[2] == 0
    assert isinstance(model, LaneModel)


def test_small_operators_stay_on_one_lane():
    assert model_of(16, [(SMALL,), (LARGE,)]).unsplit(graph_of(2)) == (0,)
    assert model_of(1, [(SMALL,), (LARGE,)]).unsplit(graph_of(2)) == (0, 1)


def test_merged_convolutions_are_one_kernel():
    convolution = replace(CONV, input_shape=(32, 7, 7), out_channels=8)
    operators = [
        op(
            f"c{index}",
            kind="conv2d",
            flops=2 * 8 * 49 * 32,
            memory_bytes=4 * (32 * 49 + 8 * 49 + 8 * 32),
            output_elements=8 * 49,
            convolution=convolution if index < 2 else None,
        )
        for index in range(3)
    ]
    graph, model = OperatorGraph("g", tuple(operators)), model_of(1)
    # Eight channels fill half of a vector, so both together take what each of them takes.
    merged, apart = model.price(graph, [Stage(((0,), (1,)), Strategy.MERGE), Stage(((0,), (1,)))])
    assert merged < 0.75 * apart
    with pytest.raises(CostError, match="operator 2 .'c2'. is merged but is no convolution"):
        model.price(graph, [Stage(((0,), (2,)), Strategy.MERGE)])


def test_a_schedule_says_that_it_is_a_prediction():
    model = model_of(16, [(SMALL,)] * 3)
    assert isinstance(model, LowerBoundModel)
    assert isinstance(model, FloorModel)
    assert isinstance(model, DescribedModel)
    schedule = search_ios(graph_of(3), model).schedule
    assert len(schedule.stages) == 1
    assert (
        "by the analytical model of AMD EPYC 9004 (Zen 4) (16 cores), a prediction: nothing was "
        "measured" in schedule.as_text()
    )


def test_works_of_another_graph_are_refused():
    with pytest.raises(CostError, match="has 2 operators, but there is work of 1"):
        model_of(2, [(SMALL,)]).price(graph_of(2), [])
