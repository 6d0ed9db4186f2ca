"""Calls that C makes ready: what it refuses, whose threads it uses, and what it gives back."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from tests.runtime.libraries.onednn.calls import SOFTMAX, tensor
from tests.runtime.libraries.onednn.prepared import LANE, prepared
from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.libraries.onednn import native_calls
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.library import OnednnRefusalError

PRODUCT = OnednnCall(
    primitive=Primitive.PRODUCT,
    data=tensor(64, 96, position=0),
    weight=tensor(96, 128, position=1, constant=True),
    bias=None,
    result=tensor(64, 128),
    steps=(Step(kind=StepKind.GELU),),
)


def test_the_number_of_threads_of_the_caller_is_given_back(onednn):
    if onednn.version.runtime == "sequential":
        pytest.skip("this oneDNN has no threads")
    get, set_ = onednn.library.omp_get_max_threads, onednn.library.omp_set_num_threads
    before = get()
    set_(3)
    try:
        with prepared(PRODUCT, (1, 2, 1)):
            assert get() == 3
    finally:
        set_(before)


def test_what_is_refused_names_the_call_and_the_reason(onednn):
    product = Step(kind=StepKind.MULTIPLY, operand=tensor(8, 16, 16, position=1))
    refused = replace(SOFTMAX, steps=(product,))
    with closing(OnednnProcessor(lanes=1)) as processor:
        lane = processor.on_lane(LANE)
        cut = processor._read("1x1x1 0").cut
        with pytest.raises(
            OnednnRefusalError,
            match=r"operator 'scores', softmax 8x16x16:abc .*: oneDNN 3\.\S+ has no fast code for"
            r" it; compile with libraries=\(\), or give another",
        ):
            lane.prepare(replace(refused, cut=cut), "scores")


@pytest.mark.parametrize("damage", [lambda data: b"\7" + data[1:], lambda data: data[:-8]])
def test_data_of_another_version_or_length_is_refused(onednn, monkeypatch, damage):
    whole = native_calls.call_data
    monkeypatch.setattr(native_calls, "call_data", lambda *given: damage(whole(*given)))
    with pytest.raises(ExecutionError, match="damaged, or of another version"), prepared(PRODUCT):
        pass


class Memory(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(7)]
    _fields_ += [("used_bytes", ctypes.c_size_t), ("free_bytes", ctypes.c_size_t)]
    _fields_ += [("keepcost", ctypes.c_size_t)]


def test_calls_give_all_of_their_memory_back(onednn):
    process = ctypes.CDLL(None)
    if not hasattr(process, "mallinfo2"):
        pytest.skip("only glibc tells how much memory is in use")
    process.mallinfo2.restype = Memory
    seen = []
    with closing(OnednnProcessor(lanes=1)) as processor:
        for _ in range(6):
            for _ in range(20):
                with ExitStack() as undo:
                    processor.prepare(PRODUCT, (1, 2, 1), "here", LANE, undo)
            seen.append(process.mallinfo2().used_bytes)
    # The first ones fill oneDNN's cache of primitives. One descriptor a call would be 20 KB.
    assert abs(seen[-1] - seen[-2]) < 4096
