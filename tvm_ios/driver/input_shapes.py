"""Shapes from a user for a model whose file leaves dimensions open. Free of TVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from tvm_ios.errors import OptionError
from tvm_ios.support.whole_number import require_whole

__all__ = ["AS_IN_FILE", "InputShapes"]

_ENTRY = re.compile(r"\s*(?P<name>[^\s\[\]]+?)\s*:\s*\[(?P<extents>[^\[\]]*)\]\s*")
_EXAMPLE = "such as 'x:[1,3,224,224] mask:[1,128]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShapes:
    """Shapes by input, and the extent of open first dimensions.

    Raises
    ------
    OptionError
        If an extent or the batch size is no whole number above 0.

    Examples
    --------
    >>> InputShapes.parse("x:[1,3,224,224] mask:[1,128]").shapes["mask"]
    (1, 128)
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch_size: int | None = None
    """Extent of every input's first dimension without another extent; None leaves it open."""

    def __post_init__(self) -> None:
        for name, shape in self.shapes.items():
            for extent in shape:
                require_whole(f"an extent of input {name!r}", extent, least=1)
        if self.batch_size is not None:
            require_whole("batch_size", self.batch_size, least=1)

    @classmethod
    def parse(cls, text: str | None, batch_size: int | None = None) -> Self:
        """Shapes in the form of ``tvmc --input-shapes``: ``NAME:[EXTENT,…]``, separated by spaces.

        Raises
        ------
        OptionError
            If the text is something else, or has an input twice or an extent that is not above 0.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        rest = text or ""
        while rest.strip():
            entry = _ENTRY.match(rest)
            if entry is None:
                raise OptionError(f"--input-shapes has {rest.strip()!r}; give {_EXAMPLE}")
            name, extents = entry["name"], entry["extents"]
            if name in shapes:
                raise OptionError(f"--input-shapes has input {name!r} twice; leave out one of both")
            try:
                shapes[name] = tuple(int(each) for each in extents.split(",") if extents.strip())
            except ValueError:
                raise OptionError(
                    f"--input-shapes has [{extents}] for input {name!r}; give whole numbers, "
                    f"{_EXAMPLE}"
                ) from None
            rest = rest[entry.end() :]
        return cls(shapes=shapes, batch_size=batch_size)

    def require_none(self, model: str) -> None:
        """Refuse shapes for a model that has its own.

        Raises
        ------
        OptionError
            If there are shapes or a batch size.
        """
        if self != AS_IN_FILE:
            raise OptionError(
                f"{model} has shapes of its own; leave out --input-shapes and --batch-size, which "
                "are for ONNX"
            )


AS_IN_FILE = InputShapes()
"""No shapes: every input has those of the model."""
