"""Tensors in oneDNN's terms: logical extents and a format, and boxes cut out of them. No TVM."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from tvm_ios.core.fused_function import TensorType
from tvm_ios.support.json_nouns import Signed

__all__ = [
    "CHANNELS_LAST",
    "DATA_TYPES",
    "FORMATS",
    "DataType",
    "OnednnTensor",
    "Piece",
    "Range",
    "in_order",
    "is_format",
]

FORMATS: Mapping[str, int] = MappingProxyType(
    {"a": 2, "ab": 3, "abc": 4, "abcd": 5, "abcde": 6, "ba": 14, "acb": 15, "acdb": 22}
    | {"bacd": 25, "cdba": 28, "decab": 39}
    | {"abcdef": 7, "acdeb": 33, "cdeba": 38, "defcab": 45}
    | {"aBcd4b": 84, "aBcd8b": 102, "aBcd16b": 78}
    | {"ABcd4b4a": 88, "ABcd8b8a": 107, "ABcd16b16a": 79}
    | {"Acdb4a": 215, "Acdb8a": 216, "Acdb16a": 211}
    | {"BA16a16b": 503, "BA16a32b": 504, "BA16a48b": 505, "BA16a64b": 506}
    | {"Abcde4a": 126, "Abcde8a": 138, "Abcde16a": 114}
)
"""Numbers of formats (``dnnl_format_tag_t``) by oneDNN's names.

A letter is an axis, the outermost first; a capital one is split into the blocks that follow.
"""
PACKED = re.compile(r"Ba[1-9]\d*b")
"""Formats of matrices in blocks of any number of columns, the rows of a block one after the other.

TVM packs the weights of a dense layer so; oneDNN has no such format, and reads them unpacked.
"""
CHANNELS_LAST: Mapping[int, str] = MappingProxyType({4: "acdb", 5: "acdeb"})
"""Formats of images whose channels lie innermost, by number of axes."""


@dataclass(frozen=True, slots=True)
class DataType:
    """Data type of tensors as oneDNN has it."""

    number: int
    """Number of the data type in oneDNN, a ``dnnl_data_type_t``."""
    size_bytes: int


DATA_TYPES: Mapping[str, DataType] = MappingProxyType(
    {
        "float32": DataType(3, 4),
        "bfloat16": DataType(2, 2),
        "int8": DataType(5, 1),
        "uint8": DataType(6, 1),
    }
)
"""Data types by TVM's names."""
Range = tuple[int, int]
"""Begin and end of a range along an axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnTensor:
    """A tensor of a launch, with extents and format for oneDNN."""

    position: int | None
    """Position among the inputs of the launch; None for its output."""
    shape: tuple[int, ...]
    """Shape in the launch."""
    extents: tuple[int, ...]
    """Logical shape, such as batch, channels, height, width; a depth comes before the height."""
    format: str
    """Order of the elements in memory: a name in :data:`FORMATS`, or one of :data:`PACKED`."""
    constant: bool = False
    """True if values are the same in every run, so a reordered copy is kept."""
    dtype: str = "float32"
    """Data type in the launch: a name in :data:`DATA_TYPES`."""
    zero_point: Signed = 0
    """Whole number that stands for 0 in data or weights of whole numbers."""

    @property
    def type(self) -> TensorType:
        """Shape and data type in the launch."""
        return TensorType(self.shape, self.dtype)

    @property
    def packed(self) -> bool:
        """True if the tensor is a matrix in a format of :data:`PACKED`."""
        return PACKED.fullmatch(self.format) is not None

    @property
    def fault(self) -> str | None:
        """Words on why no tensor may be so, after its name; None where it may."""
        if self.dtype not in DATA_TYPES:
            return f".dtype is {self.dtype!r}; expected one of {', '.join(DATA_TYPES)}"
        if not is_format(self.format):
            return f".format is {self.format!r}, which is no format of oneDNN"
        if prod(self.shape) != prod(self.extents):
            return f" has shape {self.shape} and extents {self.extents}, which differ in size"
        return None

    def block(self, axis: int) -> int:
        """Number of elements of an axis that lie together in a block; 1 where it is not split."""
        sizes = re.findall(r"(\d+)([a-z])", self.format)
        return prod(int(size) for size, letter in sizes if letter == _letter(axis))

    def piece(self, box: Sequence[Range], *, gaps: bool = False) -> Piece | None:
        """A box of the tensor; None where its elements do not lie together.

        A cut axis leaves gaps if an axis outside it has more than one element. ``gaps`` allows them
        in formats without blocks.
        """
        order = [letter for letter in self.format if letter.isalpha()]
        axes = list(dict.fromkeys(ord(letter.lower()) - ord("a") for letter in order))
        inner = prod(self.block(axis) for axis in axes)
        offset, stride = 0, inner
        strides = [1] * len(self.extents)
        cut = apart = False
        for axis in reversed(axes):
            begin, end = box[axis]
            size, whole = self.block(axis), self.extents[axis]
            if begin % size or end % size:
                return None
            apart = apart or (cut and end - begin > size)
            cut = cut or (begin, end) != (0, whole)
            offset += begin // size * stride
            strides[axis] = stride
            stride *= whole // size
        if apart and not (gaps and inner == 1):
            return None
        return Piece(
            tensor=replace(self, extents=tuple(end - begin for begin, end in box)),
            offset_bytes=offset * DATA_TYPES[self.dtype].size_bytes,
            strides=tuple(strides) if apart else None,
        )

    def as_text(self) -> str:
        """Extents and format, such as ``1x64x55x55:aBcd16b``; ``=`` says that it is constant.

        Any other type than float32 stands in front, as in ``bfloat16:1x64:ab``.
        """
        dtype = "" if self.dtype == "float32" else f"{self.dtype}:"
        constant = "=" if self.constant else ""
        zero = f"{-self.zero_point:+}" if self.zero_point else ""
        return f"{dtype}{'x'.join(map(str, self.extents))}:{self.format}{constant}{zero}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A box cut out of a tensor, and its place in the tensor."""

    tensor: OnednnTensor
    offset_bytes: int
    """Bytes from the begin of the whole tensor to the box."""
    strides: tuple[int, ...] | None
    """Elements from one to the next along each axis; None where the format says it."""


def in_order(axes: int) -> str:
    """Format of a number of axes in their order, such as ``abcd``."""
    return "".join(map(_letter, range(axes)))


def is_format(name: str) -> bool:
    """True for names in :data:`FORMATS`, and for those of :data:`PACKED`."""
    return name in FORMATS or PACKED.fullmatch(name) is not None


def _letter(axis: int) -> str:
    return chr(ord("a") + axis)
