"""A fused function in words that no dialect owns: what a library reads to see if it computes it.

A dialect describes what an operator runs; a library looks for the patterns it has a call for.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AttributeValue", "FusedFunction", "PrimitiveCall", "TensorType"]

AttributeValue = bool | int | float | str | None | tuple["AttributeValue", ...]
"""The value of an attribute of a primitive operator."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and data type of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    def fits(self, other: TensorType) -> bool:
        """Whether the bytes of one serve as the other: the same but for ones at the ends."""
        return self.dtype == other.dtype and _core(self.shape) == _core(other.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveCall:
    """One primitive operator inside a fused function."""

    operator: str
    """Name in TVM, such as ``nn.conv2d``; ``constant`` for a constant, whose ``value`` is an
    attribute where it is one number."""
    operands: tuple[int, ...]
    """Values: the parameters of the function come first, then the results of its calls."""
    result: TensorType
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    def attribute(self, name: str, default: AttributeValue = None) -> AttributeValue:
        """The value of an attribute, or the default where there is none of that name."""
        return dict(self.attributes).get(name, default)

    def wholes(self, name: str) -> tuple[int, ...]:
        """The whole numbers of an attribute that is one, or several."""
        value = self.attribute(name)
        entries = value if isinstance(value, tuple) else (value,)
        return tuple(entry for entry in entries if isinstance(entry, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedFunction:
    """What one operator of a network runs: tensors in, primitive operators, one tensor out."""

    parameters: tuple[TensorType, ...]
    """Parameters in the order of the kernel's arguments."""
    calls: tuple[PrimitiveCall, ...]
    """Each reads only values before it; the last one's result is that of the function."""
    constants: frozenset[int] = frozenset()
    """Parameters that are the same in every run, unless somebody sets them between two."""

    def result_of(self, call: int) -> int:
        """The number of the value that a call, by its position, makes."""
        return len(self.parameters) + call


def _core(shape: tuple[int, ...]) -> tuple[int, ...]:
    extents = list(shape)
    while extents and extents[-1] == 1:
        extents.pop()
    while extents and extents[0] == 1:
        extents.pop(0)
    return tuple(extents)
