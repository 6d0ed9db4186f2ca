"""The image of a plan holds what the plan says; how C reads it is tested beside the loader."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import PlanError
from tvm_ios.plan.image import IMAGE_MAGIC, ProgramFacts, image_bytes
from tvm_ios.plan.library_call import LibraryCall, LibraryName
from tvm_ios.plan.lower import lower_plan

_HEADER = "<12sIQIi qq 14i"


class Reader:
    """The arrays of an image, by the layout that ``plan_image.h`` has."""

    def __init__(self, image: bytes) -> None:
        fields = struct.unpack_from(_HEADER, image)
        self.magic, self.version, self.size_bytes, self.checksum, self.lanes = fields[:5]
        self.arena_bytes, self.spin_ns, self.tasks_per_lane, refused, features = fields[5:10]
        buffers, tensors, extents, inputs, outputs, launches = fields[10:16]
        arguments, groups, successors, self.num_calls, texts = fields[16:]
        self._image, self._at = image, struct.calcsize(_HEADER)
        self._texts = image[len(image) - texts :]
        self.refused, self.features = self.text(refused), self.text(features)
        self.buffers = self._rows("qqi4x", buffers)
        self.tensors = self._rows("qqiiiiBBH4x", tensors)
        self.extents = self._numbers("q", extents)
        self.inputs = self._rows("iii", inputs)
        self.outputs = self._numbers("i", outputs)
        self.launches = self._rows("iiiiiii", launches)
        self.arguments = self._numbers("i", arguments)
        self.rows = self._numbers("i", groups + 1)
        self.homes = self._numbers("i", groups)
        self.successor_rows = self._numbers("i", groups + 1)
        self.successors = self._numbers("i", successors)
        assert self._at + texts == len(image)

    def text(self, place: int) -> str:
        return self._texts[place:].partition(b"\0")[0].decode()

    def _rows(self, layout: str, count: int) -> list[tuple[int, ...]]:
        begin, size = self._at, struct.calcsize(f"<{layout}")
        self._at += count * size
        return list(struct.iter_unpack(f"<{layout}", self._image[begin : self._at]))

    def _numbers(self, layout: str, count: int) -> list[int]:
        return [number for (number,) in self._rows(layout, count)]


def plan_of(random_graph, seed):
    return lower_plan(*random_graph(random.Random(seed)), lanes=2)


@given(seed=st.integers(0, 10**9))
def test_every_part_of_a_plan_is_in_its_image(random_graph, seed):
    plan = plan_of(random_graph, seed)
    names = frozenset(entry.name for entry in plan.inputs[::2])
    image = image_bytes(
        plan, ProgramFacts(parameters=names, features=("avx", "fma"), refused="it is März")
    )
    read = Reader(image)
    assert (read.magic, read.size_bytes) == (IMAGE_MAGIC, len(image))
    assert read.checksum == zlib.crc32(image[28:])
    assert (read.lanes, read.arena_bytes) == (plan.lanes, plan.arena_bytes)
    assert (read.features, read.refused, read.num_calls) == ("avx fma", "it is März", 0)
    kinds = ("arena", "input", "output")
    assert [(size, offset, kinds[kind]) for size, offset, kind in read.buffers] == [
        (b.size_bytes, b.arena_offset or 0, b.kind.value) for b in plan.buffers
    ]
    assert [
        (buffer, offset, size, tuple(read.extents[first : first + rank]), read.text(dtype))
        for offset, size, buffer, first, rank, dtype, *_ in read.tensors
    ] == [(t.buffer, t.byte_offset, t.size_bytes, t.shape, t.dtype) for t in plan.tensors]
    assert [(read.text(name), tensor, bool(bound)) for name, tensor, bound in read.inputs] == [
        (entry.name, entry.tensor, entry.name in names) for entry in plan.inputs
    ]
    assert tuple(read.outputs) == plan.outputs
    for row, launch in zip(read.launches, plan.launches, strict=True):
        operator, kernel, first, inputs, outputs, serial, call = row
        assert (read.text(operator), read.text(kernel)) == (launch.operator, launch.kernel)
        middle = first + inputs
        assert tuple(read.arguments[first:middle]) == launch.inputs
        assert tuple(read.arguments[middle : middle + outputs]) == launch.outputs
        assert (serial, call) == (not launch.split, -1)
    assert read.homes == [group.lane for group in plan.groups]
    for number, group in enumerate(plan.groups):
        assert tuple(range(read.rows[number], read.rows[number + 1])) == group.launches
        after = read.successors[read.successor_rows[number] : read.successor_rows[number + 1]]
        assert after == [n for n, each in enumerate(plan.groups) if number in each.dependencies]


def test_calls_of_a_library_are_numbered_where_c_makes_them(random_graph):
    plan = plan_of(random_graph, 3)
    call = LibraryCall(LibraryName("some", "Some"), descriptor=None)
    launches = [
        replace(launch, call=call if number % 2 else None)
        for number, launch in enumerate(plan.launches)
    ]
    plan = replace(plan, launches=tuple(launches))
    read = Reader(image_bytes(plan, ProgramFacts(call_function="run_it")))
    assert read.num_calls == len(launches) // 2
    assert [row[6] for row in read.launches if row[6] >= 0] == [*range(read.num_calls)]
    for row, launch in zip(read.launches, launches, strict=True):
        assert read.text(row[1]) == ("run_it" if launch.call else launch.kernel)
    assert Reader(image_bytes(plan)).num_calls == 0


def test_groups_out_of_order_are_refused(random_graph):
    plan = plan_of(random_graph, 3)
    assert len(plan.groups) > 1
    with pytest.raises(PlanError, match=r"groups list launches .*, out of order; lower the module"):
        image_bytes(replace(plan, groups=plan.groups[::-1]))
