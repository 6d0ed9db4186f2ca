"""The image of a plan: the bytes in which files store it, and of which native code runs it. No TVM.

``runtime/base/native/plan_image.h`` says what the bytes mean: arrays follow the header, and after
them the texts, each ended by a zero byte and named by its first one. :mod:`.image_reader` reads
images in Python, ``plan_loader.h`` in C.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import dlpack_fields
from tvm_ios.plan.parts.masks import group_masks, input_masks
from tvm_ios.plan.plan import BufferKind, ExecutionPlan

__all__ = [
    "ARRAYS",
    "HEADER",
    "IMAGE_MAGIC",
    "KINDS",
    "NO_CALL",
    "PLAN_VERSION",
    "PREFIX",
    "ProgramFacts",
    "image_bytes",
]

IMAGE_MAGIC = b"tvm-ios plan"
PLAN_VERSION = 6
"""Version of plans in files, of which plan_image.h has the same number."""
IS_FFI, OF_SHAPES = 1, 2
"""Flags of a header: kernels are those of TVM-FFI; parts are one model in several shapes."""
PREFIX = struct.Struct("<12sIQI")
"""Layout of the beginning: magic, version, bytes of the image, checksum of all that follows."""
HEADER = struct.Struct("<iqq18i")
"""Layout of what follows: 8 numbers, counts of arrays, number of calls, bytes of the texts, and
flags."""
ARRAYS = (
    *("qqi4x", "qqiiiiBBH4x", "q", "q", "iiii", "i", "iiiiiiiii", "i"),
    *("i", "iiii", "i", "i", "ii"),
)
"""Layout of an item of each array, in the order of PlanImage."""
KINDS = (BufferKind.ARENA, BufferKind.INPUT, BufferKind.OUTPUT)
"""Kinds of buffers by their number in an image."""
NO_CALL = -1
"""Number in place of that of a call where a kernel computes a launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """Facts about a model that programs without Python read from the image of its plan."""

    parameters: frozenset[str] = frozenset()
    """Names of those inputs that are parameters."""
    features: tuple[str, ...] = ()
    """Instruction sets that the kernels need, in the words of ``/proc/cpuinfo``."""
    refused: str = ""
    """Reason why only Python can run the model; empty where C can."""
    call_function: str = ""
    """C function that makes the calls of operator libraries; empty where Python makes them."""
    calls: tuple[bytes, ...] = ()
    """Data of each of these calls in whole numbers of 8 bytes, in the order of the launches."""
    tasks_per_lane: int = 1
    """Tasks a lane that a parallel region is split into."""
    is_ffi: bool = False
    """True if its kernels are those of TVM-FFI, and the file has the parameters itself."""
    spin_ns: int = 0
    """Nanoseconds that lanes spin after a run before they sleep."""


class _Texts:
    """Texts that are written one after another, equal ones once."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """First byte of a text."""
        if text not in self._places:
            self._places[text] = len(self.content)
            self.content += text.encode() + b"\0"
        return self._places[text]


def image_bytes(plan: ExecutionPlan, facts: ProgramFacts | None = None) -> bytes:
    """Bytes of a plan, with what programs without Python need to know.

    Groups list the launches in order, as rule 1 of :func:`~tvm_ios.plan.verify.verify_plan` says;
    launches after those of the last group are in none.

    Raises
    ------
    PlanError
        If they do not, or a data type has no size.
    """
    facts = facts or ProgramFacts()
    texts = _Texts()
    words = [texts.place(t) for t in (facts.refused, " ".join(facts.features), facts.call_function)]
    arrays = [list(rows) for rows in _arrays(plan, facts, texts)]
    counts = [len(rows) for rows in (*arrays[:8], arrays[9], *arrays[11:])]
    numbers = (plan.lanes, plan.arena_bytes, facts.spin_ns, facts.tasks_per_lane)
    flags = facts.is_ffi * IS_FFI | plan.is_of_shapes * OF_SHAPES
    calls = sum(launch.call is not None for launch in plan.launches)
    body = b"".join(
        (
            HEADER.pack(*numbers, *words, *counts, calls, len(texts.content), flags),
            *map(_packed, ARRAYS, arrays),
            texts.content,
        )
    )
    size_bytes = PREFIX.size + len(body)
    return PREFIX.pack(IMAGE_MAGIC, PLAN_VERSION, size_bytes, zlib.crc32(body)) + body


def _arrays(
    plan: ExecutionPlan, facts: ProgramFacts, texts: _Texts
) -> Iterator[Iterable[tuple[int, ...]]]:
    """Rows of each array, in the order of :data:`ARRAYS`."""
    successors = _successors(plan)
    yield [(b.size_bytes, b.arena_offset or 0, KINDS.index(b.kind)) for b in plan.buffers]
    yield _tensor_rows(plan, facts, texts)
    yield _column(chain.from_iterable(tensor.shape for tensor in plan.tensors))
    yield _column(_call_words(facts.calls))
    yield [
        (texts.place(entry.name), entry.tensor, entry.name in facts.parameters, parts)
        for entry, parts in zip(plan.inputs, input_masks(plan), strict=True)
    ]
    yield _column(plan.outputs)
    yield _launch_rows(plan, texts)
    yield _column(chain.from_iterable((*a.inputs, *a.outputs) for a in plan.launches))
    yield _column(_group_begins(plan))
    yield [
        (group.stage, group.position, group.lane, parts)
        for group, parts in zip(plan.groups, group_masks(plan), strict=True)
    ]
    yield _column(_begins(map(len, successors)))
    yield _column(chain.from_iterable(successors))
    yield [(texts.place(part.name), len(part.outputs)) for part in plan.parts]


def _tensor_rows(
    plan: ExecutionPlan, facts: ProgramFacts, texts: _Texts
) -> Iterator[tuple[int, ...]]:
    first = 0
    for tensor in plan.tensors:
        rank, dtype = len(tensor.shape), texts.place(tensor.dtype)
        place = (tensor.byte_offset, tensor.size_bytes, tensor.buffer)
        fields = dlpack_fields(tensor.dtype, is_ffi=facts.is_ffi)
        yield (*place, first, rank, dtype, *fields)
        first += rank


def _launch_rows(plan: ExecutionPlan, texts: _Texts) -> Iterator[tuple[int, ...]]:
    first = calls = 0
    for launch in plan.launches:
        names = (texts.place(launch.operator), texts.place(launch.kernel))
        tensors = (first, len(launch.inputs), len(launch.outputs))
        call, data = NO_CALL, NO_CALL
        if launch.call is not None:
            call, data = calls, texts.place(json.dumps(launch.call.to_data()))
        serial = (not launch.split) + 2 * (not launch.split_alone)
        yield (*names, *tensors, serial, call, data, launch.operator_index)
        first += len(launch.inputs) + len(launch.outputs)
        calls += launch.call is not None


def _call_words(calls: Sequence[bytes]) -> Iterator[int]:
    """Number of calls, and each one's data after their number of bytes; nothing without calls."""
    if calls:
        yield len(calls)
    for data in calls:
        yield len(data)
        yield from struct.unpack(f"<{len(data) // 8}q", data)


def _successors(plan: ExecutionPlan) -> list[list[int]]:
    """The groups that wait for each group."""
    successors: list[list[int]] = [[] for _ in plan.groups]
    for number, group in enumerate(plan.groups):
        for dependency in group.dependencies:
            successors[dependency].append(number)
    return successors


def _group_begins(plan: ExecutionPlan) -> list[int]:
    """First launch of each group, and the one after the last group."""
    begins = list(_begins(len(group.launches) for group in plan.groups))
    listed = list(chain.from_iterable(group.launches for group in plan.groups))
    if listed != list(range(begins[-1])):
        raise PlanError(
            f"groups list launches {listed[:20]}..., out of order; lower the module again"
        )
    return begins


def _begins(lengths: Iterable[int]) -> Iterable[int]:
    """Begins of rows that lie one after another, given their lengths, and the end of the last."""
    return accumulate(lengths, initial=0)


def _column(numbers: Iterable[int]) -> Iterable[tuple[int]]:
    return ((number,) for number in numbers)


def _packed(layout: str, rows: Sequence[tuple[int, ...]]) -> bytes:
    return struct.pack("<" + layout * len(rows), *chain.from_iterable(rows))
