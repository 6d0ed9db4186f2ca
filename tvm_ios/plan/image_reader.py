"""The reader of plans in files, which :mod:`.image` writes. No TVM here."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from tvm_ios.errors import PlanError
from tvm_ios.plan.image import ARRAYS, HEADER, IMAGE_MAGIC, KINDS, NO_CALL, PLAN_VERSION, PREFIX
from tvm_ios.plan.library_call import CallReader, no_calls
from tvm_ios.plan.plan import Buffer, ExecutionPlan, Group, Launch, PlanInput, Tensor
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["read_image"]


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


def _read(image: bytes, read_call: CallReader) -> ExecutionPlan:
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
    lanes, arena_bytes, *header, _, texts_bytes = HEADER.unpack_from(body)
    counts = header[5:]
    groups = counts[7]
    counts[7:8] = (groups + 1, groups, groups + 1)
    arrays, at = [], HEADER.size
    for layout, count in zip(ARRAYS, counts, strict=True):
        end = at + count * struct.calcsize(f"<{layout}")
        arrays.append(list(struct.iter_unpack(f"<{layout}", body[at:end])))
        at = end
    if len(body) != at + texts_bytes:
        raise ValueError("its arrays do not fill it")
    return _Reader(arrays, body[at:], read_call).plan(lanes, arena_bytes)


class _Reader:
    """Parts of a plan in the arrays of its image."""

    def __init__(
        self, arrays: Sequence[list[tuple[int, ...]]], texts: bytes, read_call: CallReader
    ) -> None:
        self._arrays = arrays
        self._texts = texts
        self._read_call = read_call

    def plan(self, lanes: int, arena_bytes: int) -> ExecutionPlan:
        """The plan of all parts."""
        return ExecutionPlan(
            lanes=lanes,
            arena_bytes=arena_bytes,
            buffers=tuple(
                Buffer(kind=KINDS[kind], size_bytes=size, arena_offset=None if kind else offset)
                for size, offset, kind in self._arrays[0]
            ),
            tensors=tuple(
                Tensor(
                    buffer=buffer,
                    byte_offset=offset,
                    shape=self._numbers(2, first, count),
                    dtype=self._text(dtype),
                )
                for offset, _, buffer, first, count, dtype, *_ in self._arrays[1]
            ),
            launches=tuple(self._launch(*row) for row in self._arrays[5]),
            groups=tuple(self._groups()),
            inputs=tuple(
                PlanInput(self._text(name), tensor) for name, tensor, _ in self._arrays[3]
            ),
            outputs=self._numbers(4, 0, len(self._arrays[4])),
        )

    def _launch(
        self,
        operator: int,
        kernel: int,
        first: int,
        num_inputs: int,
        num_outputs: int,
        serial: int,
        call: int,
        data: int,
        operator_index: int,
    ) -> Launch:
        stored = None if call == NO_CALL else parse_json(self._text(data), "a call")
        return Launch(
            operator=self._text(operator),
            operator_index=operator_index,
            kernel=self._text(kernel),
            inputs=self._numbers(6, first, num_inputs),
            outputs=self._numbers(6, first + num_inputs, num_outputs),
            split=not serial,
            call=None if stored is None else self._read_call(stored),
        )

    def _groups(self) -> Iterator[Group]:
        begins, rows, edges = (self._arrays[number] for number in (7, 8, 9))
        dependencies: list[list[int]] = [[] for _ in rows]
        for number in range(len(rows)):
            (begin,), (end,) = edges[number : number + 2]
            for successor in self._numbers(10, begin, end - begin):
                dependencies[successor].append(number)
        for number, (stage, position, lane) in enumerate(rows):
            (begin,), (end,) = begins[number : number + 2]
            yield Group(
                stage=stage,
                position=position,
                launches=tuple(range(begin, end)),
                dependencies=tuple(dependencies[number]),
                lane=lane,
            )

    def _numbers(self, array: int, first: int, count: int) -> tuple[int, ...]:
        numbers = tuple(number for (number,) in self._arrays[array][first : first + count])
        if first < 0 or len(numbers) != count:
            raise ValueError(f"numbers {first} to {first + count} of array {array} are not there")
        return numbers

    def _text(self, place: int) -> str:
        if not 0 <= place < len(self._texts):
            raise ValueError(f"text {place} is not there")
        return self._texts[place : self._texts.index(b"\0", place)].decode()
