"""The line on what takes most of a run, of real shapes of stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.bottleneck import bottleneck, kind_times
from tvm_ios.runtime.artifact.evidence import Evidence, TracedRuns
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search.baselines import sequential_schedule


def story(*operators, libraries=None):
    """A story whose run took so many nanoseconds for each kind, in order."""
    graph = OperatorGraph(
        "net",
        tuple(
            op(f"{kind}_{at}", kind=kind, flops=flops)
            for at, (kind, _, flops) in enumerate(operators)
        ),
    )
    schedule = replace(sequential_schedule(graph), libraries=libraries)
    events, now = [], 0
    for at, (kind, ns, _) in enumerate(operators):
        events.append(
            TraceEvent(
                operator=f"{kind}_{at}", stage=at, group=0, lane=0, start_ns=now, end_ns=now + ns
            )
        )
        now += ns
    rounds = (CompareRound(run_ns=(1e6,), ping_pong_ns=50.0, slow=False),) * 8
    return ModelStory(
        graph=graph,
        schedule_json=schedule.to_json(),
        report="",
        machine={},
        versions={},
        evidence=Evidence(
            kept="sequential",
            reason="",
            race=Comparison(names=("sequential",), rounds=rounds, confidence=0.95, notes=()),
            lanes=2,
            traced=TracedRuns.of([events], schedule),
        ),
    )


def test_a_kind_is_summed_up_over_its_launches():
    told = story(("concatenate", 300, 0), ("conv2d", 300, 9), ("concatenate", 400, 0))
    assert [(each.noun, each.launches, each.busy_ns) for each in kind_times(told)] == [
        ("concatenations", 2, 700),
        ("convolutions", 1, 300),
    ]
    assert bottleneck(told).startswith(
        "concatenations take 70% of the time of all launches (2 of 3): none is needed at batch 1"
    )


@pytest.mark.parametrize(
    ("kind", "flops", "libraries", "advice"),
    [
        ("conv2d", 90_000, None, "at 90 GFLOPS by TVM's kernels, tuned ones may help: --tuning"),
        ("dense", 90_000, (LibraryOperators("onednn", (0,)),), "at 90 GFLOPS by oneDNN, fewer"),
        ("layout_transform", 0, None, "--desired-layout NHWC or NCHW"),
        ("transpose", 0, None, "they only move data"),
        ("max_pool2d", 9, None, "memory limits them"),
    ],
)
def test_each_kind_has_something_that_would_help(kind, flops, libraries, advice):
    told = story((kind, 1_000, flops), ("add", 10, 1), libraries=libraries)
    assert advice in bottleneck(told)
    assert " take 99% of the time of all launches (1 of 2): " in bottleneck(told)


def test_a_merge_counts_as_its_members(graph, schedule):
    name = "wide+narrow"
    event = TraceEvent(operator=name, stage=1, group=0, lane=0, start_ns=0, end_ns=10)
    traced = TracedRuns.of([(event,)], schedule)
    evidence = replace(story(("add", 1, 1)).evidence, traced=traced)
    told = ModelStory(
        graph=graph,
        schedule_json=schedule.to_json(),
        report="",
        machine={},
        versions={},
        evidence=evidence,
    )
    assert [each.noun for each in kind_times(told)] == ["convolutions"]


def test_without_a_traced_run_there_is_no_line():
    told = story(("conv2d", 10, 1))
    untraced = replace(told.evidence, traced=TracedRuns())
    assert bottleneck(replace(told, evidence=untraced)) == ""
    assert bottleneck(replace(told, evidence=None)) == ""


@pytest.mark.parametrize(
    ("kind", "noun"),
    [
        ("conv2d_add_relu", "convolutions"),
        ("conv2d_transpose_add", "transposed convolutions"),
        ("matmul_add_gelu", "products"),
        ("convert", "convert operators"),
        ("add_relu", "add_relu operators"),
    ],
)
def test_a_kernel_of_several_operators_is_of_the_kind_of_its_first(kind, noun):
    assert [each.noun for each in kind_times(story((kind, 1_000, 1)))] == [noun]


def test_what_would_help_is_an_option_of_the_dialect():
    told = story(("dense", 300, 9))
    assert bottleneck(told).endswith("--tuning autotvm")
    relax = replace(told, versions={"tvm": "0.27.0.post1"})
    assert bottleneck(relax).endswith("--tuning-records of MetaSchedule")
