"""Calls made complete on this processor: what oneDNN refuses, fails on, or computes whole only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from tests.runtime.libraries.onednn.calls import SOFTMAX, tensor
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.lane_pool import LanePool
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.libraries.onednn import device
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind, Window
from tvm_ios.runtime.libraries.onednn.call_data import counts_of
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.library import OnednnRefusalError


def slopes(*extents: int, position: int) -> Step:
    return Step(kind=StepKind.PRELU, operand=tensor(*extents, position=position))


@pytest.fixture
def processor(onednn, monkeypatch) -> Iterator[OnednnProcessor]:
    """One that cuts for four lanes, and tries cuts on one, as any machine has."""

    def one_lane(_: OnednnProcessor, undo: ExitStack) -> LanePool:
        return undo.enter_context(closing(LanePool(shared_runtime(), 1)))

    monkeypatch.setattr(OnednnProcessor, "_pool", one_lane)
    with closing(OnednnProcessor(lanes=4)) as made:
        yield made


def test_what_is_refused_as_invalid_is_not_computed(processor):
    """oneDNN 3.2 calls a softmax with a product so, and poolings in blocks without AVX-512."""
    product = Step(kind=StepKind.MULTIPLY, operand=tensor(8, 16, 16, position=1))
    call = replace(SOFTMAX, steps=(product,))
    assert processor.complete([call]) == {call: None}


def test_a_call_that_fails_while_its_cut_is_searched_is_one_clear_error(processor):
    call = OnednnCall(
        primitive=Primitive.MAX_POOLING,
        data=tensor(1, 24, 14, 14, position=0, layout="acdb"),
        weight=None,
        bias=None,
        result=tensor(1, 24, 7, 7, layout="acdb"),
        window=Window(strides=(2, 2), padding=(0,) * 4, dilation=(1, 1), pooled=(2, 2)),
        steps=(slopes(1, 24, 1, 1, position=1),),
    )
    with pytest.raises(ExecutionError, match=r"a cut for max pooling .*_execute failed: invalid_"):
        processor.complete([call])


def test_a_call_whose_parts_are_refused_is_whole_without_a_compiler(processor, monkeypatch):
    monkeypatch.setattr(OnednnProcessor, "_pool", lambda *_: None)
    call = OnednnCall(
        primitive=Primitive.PRODUCT,
        data=tensor(4, 1, 3, position=0),
        weight=tensor(4, 3, 8, position=1),
        bias=None,
        result=tensor(4, 1, 8),
        steps=(slopes(1, 1, 8, position=2), Step(kind=StepKind.MISH)),
    )
    (found,) = processor.complete([call]).values()
    assert found is not None
    assert found.cut.as_text() == "1x1x1"


def convolution(steps: tuple[Step, ...] = ()) -> OnednnCall:
    return OnednnCall(
        primitive=Primitive.CONVOLUTION,
        data=tensor(1, 32, 8, 8, position=0, layout="acdb"),
        weight=tensor(32, 32, 3, 3, position=1, constant=True),
        bias=tensor(32, position=2) if steps else None,
        result=tensor(1, 32, 8, 8, layout="acdb"),
        window=Window(strides=(1, 1), padding=(1,) * 4, dilation=(1, 1)),
        steps=steps,
    )


def test_a_cut_serves_the_call_with_steps_and_keeps_its_time(processor, monkeypatch):
    bare = convolution()
    (found,) = processor.complete([bare]).values()
    assert processor.found_ns(found) > 0
    monkeypatch.setattr(device, "fastest_counts", None)  # not searched for again
    call = convolution((Step(kind=StepKind.RELU),))
    (with_steps,) = processor.complete([call]).values()
    assert with_steps.cut == found.cut
    assert processor.found_ns(with_steps) == processor.found_ns(found)


@pytest.mark.parametrize("layout", ["abcd", "cdba"])
def test_a_cut_in_the_store_serves_weights_however_they_lie(tmp_path, monkeypatch, layout):
    store = ProfileDatabase(tmp_path / "facts.sqlite")
    with closing(OnednnProcessor(store=store)) as before:
        (found,) = before.complete([convolution()]).values()
        least_ns = before.found_ns(found)
    monkeypatch.setattr(device, "fastest_counts", None)  # not searched for again
    call = convolution((Step(kind=StepKind.RELU),))
    weight = replace(call.weight, shape=(3, 3, 32, 32), format=layout)
    with closing(OnednnProcessor(store=store)) as after:
        (with_steps,) = after.complete([replace(call, weight=weight)]).values()
        assert with_steps.cut == found.cut
        assert after.found_ns(with_steps) == least_ns


def test_a_cut_that_is_refused_with_steps_is_searched_for(processor, monkeypatch):
    bare = convolution()
    (found,) = processor.complete([bare]).values()
    prepare = OnednnProcessor.prepare

    def refuse(self, call, counts, *given):
        if call.steps and counts == counts_of(found):
            raise OnednnRefusalError("no")
        return prepare(self, call, counts, *given)

    monkeypatch.setattr(OnednnProcessor, "prepare", refuse)
    (other,) = processor.complete([convolution((Step(kind=StepKind.RELU),))]).values()
    assert other.cut != found.cut


def test_a_call_of_no_search_has_no_time(processor, monkeypatch):
    monkeypatch.setattr(OnednnProcessor, "_pool", lambda *_: None)
    (found,) = processor.complete([convolution()]).values()
    assert processor.found_ns(found) is None
