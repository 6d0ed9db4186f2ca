"""The bottleneck of a tuned model in a line: what takes most of a traced run, and what would help.

A kind of operator is asked about, not a single one: a network has many convolutions, and no reader
wants 255 rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tvm_ios.core.merge_outputs import merged_name
from tvm_ios.host.relax_tvm import is_relax_version
from tvm_ios.report.operator_table import flops_of_launches
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.runtime.libraries.known import find_library

__all__ = ["KindTime", "bottleneck", "kind_times"]

_NOUNS = {
    "attention": "attention kernels",
    "batch_matmul": "products",
    "concatenate": "concatenations",
    "conv": "convolutions",
    "conv1d": "convolutions",
    "conv2d": "convolutions",
    "conv2d_transpose": "transposed convolutions",
    "conv3d": "convolutions",
    "dense": "products",
    "depthwise_conv2d": "depthwise convolutions",
    "einsum": "products",
    "layout_transform": "changes of layout",
    "matmul": "products",
    "norm": "norms",
}
"""Plural nouns for people, by kind of operator."""
_PRODUCTS = {"products", "convolutions", "transposed convolutions", "depthwise convolutions"}
_ADVICE = {
    "concatenations": "none is needed at batch 1 for inputs that one concatenation alone reads, "
    "joined along channels",
    "changes of layout": "--desired-layout NHWC or NCHW may leave them out",
}
"""Words on what would help, by noun; other kinds have general advice."""
_ADVICE_OF_RELAX = {"changes of layout": "--no-race-forms or --libraries none may leave them out"}
"""Words in the place of those that name an option of Relay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTime:
    """Time of all launches of one kind and one maker in a traced run."""

    noun: str
    maker: str
    """Name of the operator library that computes them; empty for TVM's kernels."""
    launches: int
    busy_ns: int
    """Nanoseconds of these launches together; lanes overlap, so a run may be shorter."""
    flops: int
    quantised: bool = False
    """True if the model is quantised already."""
    relax: bool = False
    """True if the model is of Relax, which has other options."""

    @property
    def advice(self) -> str:
        """Words on what would make such operators faster."""
        advice = _ADVICE | _ADVICE_OF_RELAX if self.relax else _ADVICE
        if self.noun in advice:
            return advice[self.noun]
        rate = f"at {self.flops / max(1, self.busy_ns):.0f} GFLOPS"
        if self.noun in _PRODUCTS and self.maker:
            model = "a smaller model" if self.quantised else "a smaller or int8 model"
            return f"{rate} by {self.maker}, fewer operations would help: {model}"
        if self.noun in _PRODUCTS:
            helps = "--tuning-records of MetaSchedule" if self.relax else "--tuning autotvm"
            return f"{rate} by TVM's kernels, tuned ones may help: {helps}"
        if not self.flops:
            return "they only move data; a model that needs fewer of them would help"
        return "memory limits them, so fewer or smaller tensors would help"


def kind_times(story: ModelStory) -> tuple[KindTime, ...]:
    """Times of the traced run of a story by kind and maker, the longest first."""
    evidence, schedule, operators = story.evidence, story.schedule, story.graph.operators
    timeline = () if evidence is None else evidence.traced.timeline
    if not timeline:
        return ()
    library_of = {
        index: _title(row.library) for row in schedule.libraries or () for index in row.operators
    }
    first_of = {operator.name: index for index, operator in enumerate(operators)}
    for stage in schedule.stages:
        if stage.is_merge:
            name = merged_name([operators[index].name for index in stage.operators])
            first_of[name] = stage.operators[0]
    flops = flops_of_launches(story.graph, schedule)
    rows: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for event in timeline:
        index = first_of.get(event.operator)
        kind = "other" if index is None else operators[index].kind
        key = (
            _noun(kind),
            "" if index is None else library_of.get(index, ""),
        )
        took = event.end_ns - event.start_ns
        rows.setdefault(key, []).append((took, flops.get(event.operator, 0)))
    times = [_kind_time(noun, maker, row) for (noun, maker), row in rows.items()]
    relax = is_relax_version(story.versions.get("tvm", ""))
    times = [replace(each, quantised=bool(story.quantised), relax=relax) for each in times]
    return tuple(sorted(times, key=lambda each: -each.busy_ns))


def bottleneck(story: ModelStory) -> str:
    """Line on the kind that takes most of a traced run; empty where no run was traced."""
    times = kind_times(story)
    if not times:
        return ""
    first, launches = times[0], sum(each.launches for each in times)
    share = first.busy_ns / max(1, sum(each.busy_ns for each in times))
    part = f"{first.noun} take {share:.0%} of the time of all launches"
    return f"{part} ({first.launches} of {launches}): {first.advice}"


def _noun(kind: str) -> str:
    """Plural noun of a kind; kernels of Relax, which name all they compute, are of the first."""
    known = [each for each in _NOUNS if f"{kind}_".startswith(f"{each}_")]
    return _NOUNS[max(known, key=len)] if known else f"{kind} operators"


def _title(key: str) -> str:
    """Name of an operator library for people; its key where this version does not know it."""
    library = find_library(key)
    return key if library is None else library.name.title


def _kind_time(noun: str, maker: str, launches: Iterable[tuple[int, int]]) -> KindTime:
    times, flops = zip(*launches, strict=True)
    return KindTime(
        noun=noun, maker=maker, launches=len(times), busy_ns=sum(times), flops=sum(flops)
    )
