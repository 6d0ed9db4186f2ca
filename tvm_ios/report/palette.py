"""Colours of operators in pictures."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "INK", "WIRE", "Family", "family_of"]

INK = "#222222"
WIRE = "#6B6B6B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Family of operators with one colour (tints of the palette of Okabe and Ito, 2008)."""

    label: str
    fill: str
    words: tuple[str, ...]
    """Words of which one in an operator's kind makes it a member."""


# The first family that fits counts, so the narrow ones come first and the last fits all.
FAMILIES = (
    Family(label="depthwise convolution", fill="#A9DFCB", words=("depthwise",)),
    Family(label="convolution", fill="#B5DCF5", words=("conv",)),
    Family(label="pooling", fill="#F9D58F", words=("pool",)),
    Family(label="concatenation, layout", fill="#D9D9D9", words=("concat", "layout", "reshape")),
    Family(label="element-wise", fill="#F6EEA0", words=("relu", "add", "multiply", "sigmoid")),
    Family(label="other", fill="#EBC6DA", words=("",)),
)


def family_of(kind: str) -> Family:
    """Family of an operator's kind, or of a name that begins with it."""
    return next(family for family in FAMILIES if any(word in kind for word in family.words))
