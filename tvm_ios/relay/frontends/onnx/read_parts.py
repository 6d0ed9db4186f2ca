"""Inputs and attributes of a node that remember which of them a converter has looked at.

TVM's converters take what they know and pass over the rest, such as attributes of a later opset.
What nobody has read was not computed either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

from tvm.relay.frontend.onnx import onnx_input

__all__ = ["ReadAttributes", "ReadInputs"]


class ReadAttributes(dict[str, Any]):
    """Attributes by name. Whoever goes over all of them has read all."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__(attributes)
        self.unread = set(attributes)

    def __getitem__(self, name: str) -> Any:
        self.unread.discard(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.unread.discard(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or the default where there is none."""
        self.unread.discard(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """The attribute, which is gone then."""
        self.unread.discard(name)
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:
        self.unread.clear()
        return super().__iter__()

    def keys(self) -> Any:
        """Names of all attributes."""
        self.unread.clear()
        return super().keys()

    def items(self) -> Any:
        """Names and values of all attributes."""
        self.unread.clear()
        return super().items()

    def values(self) -> Any:
        """Values of all attributes."""
        self.unread.clear()
        return super().values()

    def copy(self) -> dict[str, Any]:
        """A plain copy."""
        self.unread.clear()
        return dict(super().items())


class ReadInputs(onnx_input):  # type: ignore[misc]
    """Inputs by place; None where a node leaves one out, or has no more."""

    def __init__(self, inputs: Iterable[Any]) -> None:
        values = list(inputs)
        super().__init__(values)
        self.unread = {place for place, value in enumerate(values) if value is not None}

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        if isinstance(place, slice):
            stop = len(self) if place.stop is None else place.stop
            return [self[each] for each in range(stop)[place]]
        wanted = int(place)
        if wanted >= len(self):
            return None
        self.unread.discard(wanted % len(self))
        return list.__getitem__(self, wanted)

    def __iter__(self) -> Iterator[Any]:
        self.unread.clear()
        return list.__iter__(self)
