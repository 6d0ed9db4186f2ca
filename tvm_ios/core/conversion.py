"""Conversion of a model before all else: the layout of convolutions, and data types.

``relay.transforms.conversion`` does the conversion.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.errors import OptionError

__all__ = ["ACCUMULATORS", "AS_IT_IS", "LAYOUTS", "Conversion"]

LAYOUTS = ("NCHW", "NHWC")
ACCUMULATORS = ("float16", "float32")
"""Data types that products may be summed up in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Changes to a model's layout and data types.

    Raises
    ------
    OptionError
        If a value is unknown, or an accumulator is given without mixed precision.
    """

    desired_layout: str | None = None
    """Layout of convolutions: ``"NCHW"`` or ``"NHWC"``. None leaves them unchanged, but ``tune``
    for a CPU tries NCHW where they have another layout, and keeps what is faster."""
    mixed_precision: bool = False
    """True computes products in float16, and other operators where that is safe."""
    mixed_precision_acc_type: str = "float32"
    """Type of sums of products: ``"float32"`` or ``"float16"``."""

    def __post_init__(self) -> None:
        if self.desired_layout not in (None, *LAYOUTS):
            names = ", ".join(map(repr, LAYOUTS))
            raise OptionError(f"desired_layout is {self.desired_layout!r}; give {names} or None")
        if not isinstance(self.mixed_precision, bool):
            raise OptionError(
                f"mixed_precision is {self.mixed_precision!r}; give True for float16, or False"
            )
        if self.mixed_precision_acc_type not in ACCUMULATORS:
            names = " or ".join(map(repr, ACCUMULATORS))
            raise OptionError(
                f"mixed_precision_acc_type is {self.mixed_precision_acc_type!r}; give {names}"
            )
        if self.mixed_precision_acc_type != "float32" and not self.mixed_precision:
            raise OptionError(
                f"mixed_precision_acc_type is {self.mixed_precision_acc_type!r}, but nothing is in "
                "mixed precision; give mixed_precision=True as well (--mixed-precision)"
            )

    @property
    def changes(self) -> bool:
        """True if the conversion changes anything."""
        return self.desired_layout is not None or self.mixed_precision

    def as_text(self) -> str:
        """Options as text, as they are written in a call."""
        texts = []
        if self.desired_layout is not None:
            texts.append(f"desired_layout={self.desired_layout!r}")
        if self.mixed_precision:
            texts.append("mixed_precision=True")
            texts.append(f"mixed_precision_acc_type={self.mixed_precision_acc_type!r}")
        return ", ".join(texts) or "layouts and types as they are"


AS_IT_IS = Conversion()
