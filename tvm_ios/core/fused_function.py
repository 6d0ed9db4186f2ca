"""A fused function in terms of no dialect: what an operator library reads to recognise it.

A dialect describes what an operator runs; a library looks for patterns that it has a call for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_ios.core.precision.stored_type import StoredType

__all__ = ["AttributeValue", "FusedFunction", "PrimitiveCall", "TensorType"]

AttributeValue = bool | int | float | str | None | tuple["AttributeValue", ...]
"""The value of an attribute of a primitive operator."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and data type of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    def fits(self, other: TensorType) -> bool:
        """True if the bytes of one tensor serve as the other: the same but for ones at the ends."""
        return self.dtype == other.dtype and _core(self.shape) == _core(other.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveCall:
    """A primitive operator inside a fused function, with operands, result and attributes."""

    operator: str
    """Name in TVM, such as ``nn.conv2d``; ``constant`` for a constant, whose ``value`` is an
    attribute where it is one number."""
    operands: tuple[int, ...]
    """Numbers of the values it reads: parameters of the function first, then results of its
    calls."""
    result: TensorType
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    def attribute(self, name: str, default: AttributeValue = None) -> AttributeValue:
        """The value of an attribute, or the default without such an attribute."""
        return dict(self.attributes).get(name, default)

    def wholes(self, name: str) -> tuple[int, ...]:
        """Whole numbers of an attribute that has one or several."""
        value = self.attribute(name)
        entries = value if isinstance(value, tuple) else (value,)
        return tuple(entry for entry in entries if isinstance(entry, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedFunction:
    """The computation of one operator of a network: parameters, calls of primitives, one result."""

    parameters: tuple[TensorType, ...]
    """Parameters in the order of the kernel's arguments."""
    calls: tuple[PrimitiveCall, ...]
    """Calls in order; each reads only values before it, and the last one's result is the
    function's."""
    constants: frozenset[int] = frozenset()
    """Parameters that are the same in every run, unless somebody sets them between runs."""
    stored: tuple[StoredType | None, ...] = ()
    """Types in memory of parameters that are made float32 of as they are read, None of others;
    empty where there are none. Calls compute in float32."""
    rounded_to: StoredType | None = None
    """Type that the result is rounded to in memory; None where it stays as it is computed."""

    def stored_as(self, *types: StoredType) -> FusedFunction:
        """The function with parameters of these types in memory, and its result of the first."""
        parameters = tuple(
            TensorType(each.shape, stored.dtype)
            for each, stored in zip(self.parameters, types, strict=True)
        )
        return replace(self, parameters=parameters, stored=types, rounded_to=types[0])

    def result_of(self, call: int) -> int:
        """Number of the value that a call makes, by the position of the call."""
        return len(self.parameters) + call


def _core(shape: tuple[int, ...]) -> tuple[int, ...]:
    extents = list(shape)
    while extents and extents[-1] == 1:
        extents.pop()
    while extents and extents[0] == 1:
        extents.pop(0)
    return tuple(extents)
