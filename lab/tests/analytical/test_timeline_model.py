"""The analytical cost model as the search and the reports use it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import operator_graphs
from tests.operator_graphs import op
from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.protocol import DescribedModel, FloorModel, LowerBoundModel
from tvm_ios.errors import CostError, OptionError, ScheduleError
from tvm_ios.search.baselines import make_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.gpu_work import KernelWork
from tvm_ios_lab.analytical.timeline_model import AnalyticalGpuCost, Kernels, Launching

CONV = replace(
    operator_graphs.CONV,
    operand="stem",
    input_shape=(64, 28, 28),
    out_channels=64,
    kernel=(3, 3),
    padding=(1, 1, 1, 1),
)


def conv(name, convolution=CONV, predecessors=(0,)):
    outputs = convolution.out_channels * 784
    window = 64 * convolution.kernel[0] * convolution.kernel[1]
    return op(
        name,
        *predecessors,
        kind="conv2d",
        workload=f"{convolution}",
        flops=2 * outputs * window,
        memory_bytes=4 * (64 * 784 + outputs + convolution.out_channels * window),
        output_elements=outputs,
        convolution=convolution,
    )


def concatenation(predecessors, outputs, *, view):
    return op(
        "concat",
        *predecessors,
        kind="concatenate",
        memory_bytes=8 * outputs,
        output_elements=outputs,
        view=view,
    )


def branches(*, view=True):
    """A stem, two convolutions of it, and their concatenation."""
    pointwise = replace(CONV, kernel=(1, 1), padding=(0, 0, 0, 0))
    return OperatorGraph(
        "branches",
        (
            conv("stem", replace(CONV, operand="image"), predecessors=()),
            conv("wide"),
            conv("narrow", pointwise),
            concatenation((1, 2), 2 * 64 * 784, view=view),
        ),
    )


CONCURRENT = Stage(((1,), (2,)))
MERGE = Stage(((1,), (2,)), Strategy.MERGE)


def test_it_is_what_the_search_looks_for():
    model = AnalyticalGpuCost("h100")
    assert isinstance(model, LowerBoundModel)
    assert isinstance(model, FloorModel)
    assert isinstance(model, DescribedModel)
    assert model.gpu == GPU.by_name("h100")
    with pytest.raises(OptionError, match="no GPU named 'tpu'; choose one of"):
        AnalyticalGpuCost("tpu")
    with pytest.raises(OptionError, match="no GPU named None"):
        AnalyticalGpuCost(None)


@pytest.mark.parametrize(
    ("launching", "kernels", "how"),
    [
        (Launching.GRAPH, Kernels.TUNED, "one CUDA graph, tuned kernels"),
        (Launching.STREAMS, Kernels.LIBRARY, "streams, library kernels"),
        (Launching.SYNCHRONISED, Kernels.TUNED, "streams and device-wide waits, tuned kernels"),
    ],
)
def test_it_says_what_it_is(launching, kernels, how):
    model = AnalyticalGpuCost("v100", launching=launching, kernels=kernels)
    assert model.description == (
        f"analytical model of NVIDIA V100 SXM2 ({how}), nothing was measured"
    )


def test_a_schedule_says_who_priced_it():
    graph = branches()
    model = AnalyticalGpuCost("h100")
    found = search_ios(graph, model)
    assert found.schedule.priced_by == model.description
    assert f"ms by the {model.description}" in found.as_text()
    assert found.latency_ns == sum(model.price(graph, found.schedule.stages))


def test_small_convolutions_run_side_by_side():
    graph = branches()
    model = AnalyticalGpuCost("h100")
    wide, narrow, both = model.price(graph, [Stage(((1,),)), Stage(((2,),)), CONCURRENT])
    assert max(wide, narrow) <= both < wide + narrow


def test_prices_are_the_same_again_and_on_another_graph_of_the_kind():
    model = AnalyticalGpuCost("a100-80gb")
    stages = [Stage(((0,),)), CONCURRENT, MERGE]
    once = model.price(branches(), stages)
    assert once == model.price(branches(), stages)
    assert once == AnalyticalGpuCost("a100-80gb").price(branches(), stages)


def test_a_view_costs_nothing():
    model = AnalyticalGpuCost("v100")
    assert model.price(branches(), [Stage(((3,),))]) == [0]
    assert model.price(branches(view=False), [Stage(((3,),))]) > [1000]


def test_a_merge_saves_the_concatenation_of_its_outputs():
    model = AnalyticalGpuCost("v100")
    (free,) = model.price(branches(view=True), [MERGE])
    copied, concatenated = model.price(branches(view=False), [MERGE, Stage(((3,),))])
    assert free == copied + concatenated


def test_a_concatenation_with_a_rectifier_is_needed_whatever_is_merged():
    *others, concat = branches(view=False).operators
    rectified = replace(concat, flops=concat.output_elements)
    model = AnalyticalGpuCost("v100")
    (free,) = model.price(branches(view=True), [MERGE])
    assert model.price(OperatorGraph("rectified", (*others, rectified)), [MERGE]) == [free]


@st.composite
def joined_branches(draw):
    """A stem, convolutions and a pool of it, a concatenation that copies, and a sum."""
    side = draw(st.sampled_from([14, 28, 56]))
    channels = draw(st.sampled_from([16, 32, 64]))
    size = channels * side**2

    def stream(name, kind, predecessors, elements):
        return op(
            name,
            *predecessors,
            kind=kind,
            memory_bytes=8 * elements,
            output_elements=elements,
            flops=0 if kind == "concatenate" else elements,
        )

    operators = [stream("stem", "pool", (), size)]
    for kernel in draw(st.lists(st.sampled_from([1, 3]), min_size=2, max_size=4)):
        convolution = replace(
            CONV,
            input_shape=(channels, side, side),
            out_channels=channels,
            kernel=(kernel, kernel),
            padding=(kernel // 2,) * 4,
        )
        window = channels * kernel**2
        operators.append(
            replace(
                conv(f"conv{len(operators)}", convolution),
                flops=2 * size * window,
                memory_bytes=4 * (2 * size + channels * window),
                output_elements=size,
            )
        )
    joined = tuple(range(1, draw(st.integers(3, len(operators)))))
    pool = stream("pool", "pool", (0,), size)
    concat = stream("concat", "concatenate", joined, len(joined) * size)
    last = stream("sum", "add", tuple(range(len(operators) + 2))[1:], size)
    return OperatorGraph("joined", (*operators, pool, concat, last))


@pytest.mark.slow
@given(joined_branches(), st.sampled_from(["h100", "v100"]), st.sampled_from(Launching))
def test_the_lazy_search_finds_merges_that_pay_by_a_concatenation(graph, gpu, launching):
    model = AnalyticalGpuCost(gpu, launching=launching)
    lazy, exhaustive = (search_ios(graph, model, lazy=each) for each in (True, False))
    assert lazy.latency_ns == exhaustive.latency_ns


def test_a_merge_pays_for_padding():
    graph = branches()
    model = AnalyticalGpuCost("v100", kernels=Kernels.LIBRARY)
    wide, merged = model.price(graph, [Stage(((1,),)), MERGE])
    assert merged >= wide


def test_a_larger_batch_copies_slices():
    def batch(operator):
        return replace(
            operator,
            flops=8 * operator.flops,
            memory_bytes=8 * operator.memory_bytes,
            output_elements=8 * operator.output_elements,
        )

    one = branches()
    eight = OperatorGraph("batch", tuple(batch(operator) for operator in one.operators))
    model = AnalyticalGpuCost("v100")
    run = model.simulate(eight, make_schedule(eight, (Stage(((0,),)), MERGE, Stage(((3,),))), "x"))
    (span,) = [span for span in run.operators if span.stage == 1]
    assert span.operator == "wide+narrow"
    launches = 3 * (model.gpu.graph_launch_ns + 1000)
    assert run.stage_ns[1] > launches


def test_only_convolutions_merge():
    stage = Stage(((1,), (3,)), Strategy.MERGE)
    with pytest.raises(CostError, match=r"operator 3 \('concat'\) is merged but is no convolution"):
        AnalyticalGpuCost("v100").price(branches(), [stage])


def test_work_of_another_graph_is_refused():
    work = KernelWork(matrix_product=False, rows=1, columns=1, depth=1, activation_bytes=8)
    with pytest.raises(CostError, match="'branches' has 4 operators, but there is work of 1"):
        AnalyticalGpuCost("v100", works=[(work,)]).price(branches(), [])


def test_simulation_takes_as_long_as_the_prices():
    graph = branches(view=False)
    model = AnalyticalGpuCost("h100")
    schedule = make_schedule(graph, (Stage(((0,),)), CONCURRENT, Stage(((3,),))), "by hand")
    run = model.simulate(graph, schedule)
    assert list(run.stage_ns) == model.price(graph, schedule.stages)
    assert run.latency_ns == sum(run.stage_ns)
    assert (run.scheduler, run.priced_by) == ("by hand", model.description)
    assert [span.operator for span in run.operators] == ["stem", "wide", "narrow", "concat"]
    assert [span.group for span in run.operators] == [0, 0, 1, 0]
    begins = [0, run.stage_ns[0], run.stage_ns[0], run.stage_ns[0] + run.stage_ns[1]]
    for span, begin in zip(run.operators, begins, strict=True):
        stage_end = begin + run.stage_ns[span.stage]
        assert begin < span.start_ns < span.end_ns <= stage_end
    _, wide, narrow, _ = run.operators
    assert max(wide.start_ns, narrow.start_ns) < min(wide.end_ns, narrow.end_ns)


def test_only_the_graph_of_a_schedule_is_simulated():
    other = OperatorGraph("other", branches().operators[:2])
    with pytest.raises(ScheduleError, match="does not fit graph 'other'"):
        AnalyticalGpuCost("v100").simulate(other, sequential_schedule(branches()))


def listed(graph, stages, homes):
    return replace(make_schedule(graph, tuple(stages), "list"), home_lanes=tuple(homes))


def test_a_list_on_one_stream_takes_what_its_operators_do_in_a_row():
    graph = branches(view=False)
    model = AnalyticalGpuCost("V100")
    order = [Stage(((index,),)) for index in range(4)]
    run = model.simulate(graph, listed(graph, order, (0, 0, 0, 0)))
    (whole,) = model.price(graph, [Stage(((0, 1, 2, 3),))])
    assert run.latency_ns == pytest.approx(whole, abs=2)
    assert len(run.stage_ns) == 1


def test_a_list_waits_for_data_and_events_only():
    graph = branches(view=False)
    model = AnalyticalGpuCost("V100")
    order = [Stage(((index,),)) for index in range(4)]
    run = model.simulate(graph, listed(graph, order, (0, 0, 1, 0)))
    spans = {row.operator: row for row in run.operators}
    assert {name: row.group for name, row in spans.items()} == {
        "stem": 0,
        "wide": 0,
        "narrow": 1,
        "concat": 0,
    }
    late = spans["narrow"].start_ns - spans["wide"].start_ns
    assert abs(late - model.gpu.event_ns) <= 1
    assert spans["concat"].start_ns > max(spans["wide"].end_ns, spans["narrow"].end_ns)
    assert run.latency_ns == spans["concat"].end_ns
    staged = (order[0], CONCURRENT, order[3])
    assert run.latency_ns < sum(model.price(graph, staged))


def test_a_list_sees_through_views_and_keeps_merges():
    graph = branches()
    model = AnalyticalGpuCost("V100")
    order = (Stage(((0,),)), MERGE, Stage(((3,),)))
    run = model.simulate(graph, listed(graph, order, (0, 1, 1, 0)))
    assert [row.operator for row in run.operators if row.group == 1] == ["wide+narrow"]
    merged = next(row for row in run.operators if row.group == 1)
    assert merged.start_ns >= next(r for r in run.operators if r.operator == "stem").end_ns


@pytest.mark.parametrize("launching", [Launching.STREAMS, Launching.SYNCHRONISED])
def test_an_operator_more_may_put_groups_in_a_better_order(launching):
    """The host takes groups by their lowest operators, and here the longer one first."""
    kernel = KernelWork(
        matrix_product=True,
        rows=256,
        columns=64,
        depth=512,
        activation_bytes=4 * 256 * (512 + 64),
        weight_bytes=4 * 64 * 512,
    )
    operators = (
        Operator(name="view", kind="reshape", predecessors=(), workload="w"),
        Operator(name="short", kind="dense", predecessors=(), workload="w"),
        Operator(name="long", kind="dense", predecessors=(0,), workload="w"),
    )
    graph = OperatorGraph("g", operators)
    model = AnalyticalGpuCost("k80", launching=launching, works=[[], [kernel], [kernel, kernel]])
    part, whole = Stage(((1,), (2,))), Stage(((0, 2), (1,)))
    part_ns, whole_ns = model.price(graph, [part, whole])
    assert whole_ns < part_ns
    assert model.floors(graph, [part], [part_ns])[0] <= whole_ns
