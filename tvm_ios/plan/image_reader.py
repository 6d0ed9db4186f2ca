"""The reader of plans in files, which :mod:`.image` writes. No TVM here."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tvm_ios.core.parts import Part
from tvm_ios.errors import PlanError
from tvm_ios.plan.image import (
    ARRAYS,
    HEADER,
    IMAGE_MAGIC,
    KINDS,
    NO_CALL,
    OF_SHAPES,
    PLAN_VERSION,
    PREFIX,
)
from tvm_ios.plan.library_call import CallReader, no_calls
from tvm_ios.plan.plan import Buffer, BufferKind, ExecutionPlan, Group, Launch, PlanInput, Tensor
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["parameters_of", "read_image"]


def read_image(image: bytes, read_call: CallReader = no_calls) -> ExecutionPlan:
    """Plan in the bytes of :func:`image_bytes`, not verified yet.

    Without ``read_call`` a plan that has calls of operator libraries is refused.

    Raises
    ------
    PlanError
        If the bytes are damaged, of another version, or something else.
    """
    try:
        return _read(image, read_call)
    except (struct.error, ValueError, IndexError, UnreadableValueError) as error:
        raise PlanError(
            f"not the image of a plan: {error}; export the model again with the installed version"
        ) from error


def parameters_of(image: bytes, plan: ExecutionPlan) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of those inputs of a plan that are parameters, as its image says."""
    rows = _content_of(image).arrays[4]
    for entry, (_, _, is_parameter, _) in zip(plan.inputs, rows, strict=True):
        if is_parameter:
            yield entry.name, plan.tensors[entry.tensor]


def _read(image: bytes, read_call: CallReader) -> ExecutionPlan:
    content = _content_of(image)
    text = partial(_text, content.texts)
    plan = _plan(content.lanes, content.arena_bytes, content.arrays, text, read_call)
    of_shapes = bool(content.flags & OF_SHAPES)
    return replace(plan, parts=tuple(_parts(plan, content.arrays, text, of_shapes=of_shapes)))


class _Content(NamedTuple):
    """Content of an image whose bytes are whole."""

    lanes: int
    arena_bytes: int
    flags: int
    arrays: list[Any]
    texts: bytes


def _content_of(image: bytes) -> _Content:
    if len(image) < PREFIX.size:
        raise ValueError(f"there are {len(image)} bytes only")
    magic, version, size_bytes, checksum = PREFIX.unpack_from(image)
    if magic == IMAGE_MAGIC and version != PLAN_VERSION:
        raise PlanError(
            f"execution plan has version {version}, this tvm-ios reads version {PLAN_VERSION}; "
            "export the model again with the installed version"
        )
    body = image[PREFIX.size :]
    if (magic, size_bytes, checksum) != (IMAGE_MAGIC, len(image), zlib.crc32(body)):
        raise ValueError("its bytes do not match their checksum")
    lanes, arena_bytes, *header, _, texts_bytes, flags = HEADER.unpack_from(body)
    counts = header[5:]
    groups = counts[8]
    counts[8:9] = (groups + 1, groups, groups + 1)
    arrays: list[Any] = []
    at = HEADER.size
    for layout, count in zip(ARRAYS, counts, strict=True):
        end = at + count * struct.calcsize(f"<{layout}")
        rows = list(struct.iter_unpack(f"<{layout}", body[at:end]))
        arrays.append([number for (number,) in rows] if len(layout) == 1 else rows)
        at = end
    if len(body) != at + texts_bytes:
        raise ValueError("its arrays do not fill it")
    return _Content(lanes, arena_bytes, flags, arrays, body[at:])


def _plan(
    lanes: int,
    arena_bytes: int,
    arrays: Sequence[Any],
    text: Callable[[int], str],
    read_call: CallReader,
) -> ExecutionPlan:
    buffers, tensors, extents, _, inputs, outputs, launches, arguments = arrays[:8]
    return ExecutionPlan(
        lanes=lanes,
        arena_bytes=arena_bytes,
        buffers=tuple(
            Buffer(kind=_kind(kind), size_bytes=size, arena_offset=None if kind else offset)
            for size, offset, kind in buffers
        ),
        tensors=tuple(
            Tensor(
                buffer=buffer,
                byte_offset=offset,
                shape=_part(extents, first, first + rank),
                dtype=text(dtype),
            )
            for offset, _, buffer, first, rank, dtype, *_ in tensors
        ),
        launches=tuple(
            Launch(
                operator=text(operator),
                operator_index=index,
                kernel=text(kernel),
                inputs=_part(arguments, first, first + reads),
                outputs=_part(arguments, first + reads, first + reads + writes),
                split=not serial & 1,
                split_alone=not serial & 2,
                call=None if call == NO_CALL else read_call(parse_json(text(data), "call")),
            )
            for operator, kernel, first, reads, writes, serial, call, data, index in launches
        ),
        groups=tuple(_groups(*arrays[8:12])),
        inputs=tuple(PlanInput(text(name), tensor) for name, tensor, *_ in inputs),
        outputs=tuple(outputs),
    )


def _parts(
    plan: ExecutionPlan, arrays: Sequence[Any], text: Callable[[int], str], *, of_shapes: bool
) -> Iterator[Part]:
    """Parts, whose outputs follow each other; each input has the bits of those that read it."""
    first = 0
    masks = [mask for *_, mask in arrays[4]]
    for place, (name, outputs) in enumerate(arrays[12]):
        own = [each for each, mask in zip(plan.inputs, masks, strict=True) if mask >> place & 1]
        yield Part(
            name=text(name),
            inputs=tuple(each.name for each in own),
            outputs=tuple(range(first, first + outputs)),
            shapes=tuple(plan.tensors[each.tensor].shape for each in own) if of_shapes else (),
        )
        first += outputs


def _groups(
    begins: Sequence[int],
    groups: Sequence[tuple[int, int, int, int]],
    edges: Sequence[int],
    successors: Sequence[int],
) -> Iterator[Group]:
    dependencies: list[list[int]] = [[] for _ in groups]
    for number in range(len(groups)):
        for successor in _part(successors, *edges[number : number + 2]):
            dependencies[successor].append(number)
    for number, (stage, position, lane, _) in enumerate(groups):
        yield Group(
            stage=stage,
            position=position,
            launches=tuple(range(*begins[number : number + 2])),
            dependencies=tuple(dependencies[number]),
            lane=lane,
        )


def _kind(number: int) -> BufferKind:
    if not 0 <= number < len(KINDS):
        raise ValueError(f"buffers have no kind {number}")
    return KINDS[number]


def _part(numbers: Sequence[int], begin: int, end: int) -> tuple[int, ...]:
    if not 0 <= begin <= end <= len(numbers):
        raise ValueError(f"numbers {begin} to {end} of {len(numbers)} are not there")
    return tuple(numbers[begin:end])


def _text(texts: bytes, place: int) -> str:
    if not 0 <= place < len(texts):
        raise ValueError(f"text {place} is not there")
    return texts[place : texts.index(b"\0", place)].decode()
