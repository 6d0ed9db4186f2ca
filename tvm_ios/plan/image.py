"""The image of a plan: the bytes from which native code makes launches and programs. No TVM here.

``runtime/base/native/plan_image.h`` is the twin of this file in C: it says what the bytes mean, and
``plan_loader.h`` refuses damaged ones.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import dlpack_fields
from tvm_ios.plan.plan import BufferKind, ExecutionPlan

__all__ = ["IMAGE_MAGIC", "ProgramFacts", "image_bytes"]

IMAGE_MAGIC = b"tvm-ios plan"
# plan_image.h has the same number as PLAN_IMAGE_VERSION; tvm_ios_model.c reads it from there.
_VERSION = 4
_PREFIX = struct.Struct("<12sIQI")
"""Layout of the beginning: magic, version, bytes of the image, checksum of all that follows."""
_HEADER = struct.Struct("<iqq14i")
_BUFFER = struct.Struct("<qqi4x")
_TENSOR = struct.Struct("<qqiiiiBBH4x")
_KINDS = {BufferKind.ARENA: 0, BufferKind.INPUT: 1, BufferKind.OUTPUT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """Facts about a model that programs without Python read from the image of its plan."""

    parameters: frozenset[str] = frozenset()
    """Names of those inputs that are parameters."""
    features: tuple[str, ...] = ()
    """Instruction sets that the kernels need, in the words of ``/proc/cpuinfo``."""
    refused: str = ""
    """Reason why only Python can run the model; empty where C can."""
    call_function: str | None = None
    """C function that makes the calls of operator libraries; None where kernels compute all."""
    tasks_per_lane: int = 1
    """Tasks a lane that a parallel region is split into."""
    spin_ns: int = 0
    """Nanoseconds that lanes spin after a run before they sleep."""


@dataclass(slots=True)
class _Texts:
    """Texts one after another, each ended by a zero byte; equal ones lie there once."""

    content: bytearray = field(default_factory=bytearray)
    places: dict[str, int] = field(default_factory=dict)

    def place(self, text: str) -> int:
        """First byte of a text."""
        if text not in self.places:
            self.places[text] = len(self.content)
            self.content += text.encode() + b"\0"
        return self.places[text]


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
    refused, features = texts.place(facts.refused), texts.place(" ".join(facts.features))
    ranks = [len(tensor.shape) for tensor in plan.tensors]
    arguments = [(*launch.inputs, *launch.outputs) for launch in plan.launches]
    calls = _numbered_calls(plan, facts.call_function)
    successors = _successors(plan)
    rows = _group_rows(plan)
    eights = [
        *[_BUFFER.pack(b.size_bytes, b.arena_offset or 0, _KINDS[b.kind]) for b in plan.buffers],
        *[
            _TENSOR.pack(
                tensor.byte_offset,
                tensor.size_bytes,
                tensor.buffer,
                first,
                rank,
                texts.place(tensor.dtype),
                *dlpack_fields(tensor.dtype),
            )
            for tensor, first, rank in zip(plan.tensors, _starts(ranks), ranks, strict=False)
        ],
        _packed("q", chain.from_iterable(tensor.shape for tensor in plan.tensors)),
    ]
    fours = [
        *chain.from_iterable(
            (texts.place(each.name), each.tensor, each.name in facts.parameters)
            for each in plan.inputs
        ),
        *plan.outputs,
        *chain.from_iterable(
            (
                texts.place(launch.operator),
                texts.place(launch.kernel if call < 0 else facts.call_function or ""),
                first,
                len(launch.inputs),
                len(launch.outputs),
                not launch.split,
                call,
            )
            for launch, first, call in zip(
                plan.launches, _starts(map(len, arguments)), calls, strict=False
            )
        ),
        *chain.from_iterable(arguments),
        *rows,
        *(group.lane for group in plan.groups),
        *_starts(map(len, successors)),
        *chain.from_iterable(successors),
    ]
    header = _HEADER.pack(
        plan.lanes,
        plan.arena_bytes,
        facts.spin_ns,
        facts.tasks_per_lane,
        refused,
        features,
        len(plan.buffers),
        len(plan.tensors),
        sum(ranks),
        len(plan.inputs),
        len(plan.outputs),
        len(plan.launches),
        sum(map(len, arguments)),
        len(plan.groups),
        sum(map(len, successors)),
        max(calls, default=-1) + 1,
        len(texts.content),
    )
    body = b"".join((header, *eights, _packed("i", fours), texts.content))
    size_bytes = _PREFIX.size + len(body)
    return _PREFIX.pack(IMAGE_MAGIC, _VERSION, size_bytes, zlib.crc32(body)) + body


def _numbered_calls(plan: ExecutionPlan, function: str | None) -> list[int]:
    """Number of each launch among the calls of operator libraries; -1 where a kernel computes."""
    if function is None:
        return [-1] * len(plan.launches)
    made = [launch.call is not None for launch in plan.launches]
    return [number if called else -1 for number, called in zip(_starts(made), made, strict=False)]


def _successors(plan: ExecutionPlan) -> list[list[int]]:
    """The groups that wait for each group."""
    successors: list[list[int]] = [[] for _ in plan.groups]
    for number, group in enumerate(plan.groups):
        for dependency in group.dependencies:
            successors[dependency].append(number)
    return successors


def _group_rows(plan: ExecutionPlan) -> list[int]:
    """First launch of each group, and the one after the last group."""
    rows = list(_starts(len(group.launches) for group in plan.groups))
    listed = list(chain.from_iterable(group.launches for group in plan.groups))
    if listed != list(range(rows[-1])):
        raise PlanError(
            f"groups list launches {listed[:20]}..., out of order; lower the module again"
        )
    return rows


def _starts(lengths: Iterable[int]) -> Iterable[int]:
    """Begins of rows that lie one after another, given their lengths, and the end of the last."""
    return accumulate(lengths, initial=0)


def _packed(kind: str, numbers: Collection[int] | Iterable[int]) -> bytes:
    values: Sequence[int] = list(numbers)
    return struct.pack(f"<{len(values)}{kind}", *values)
