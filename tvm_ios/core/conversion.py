"""Conversion before all else: the layout of convolutions, and types of data.

``relay.transforms.conversion`` does it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.errors import OptionError

__all__ = ["ACCUMULATORS", "AS_IT_IS", "LAYOUTS", "Conversion"]

LAYOUTS = ("NCHW", "NHWC")
ACCUMULATORS = ("float16", "float32")
"""Types that products may be summed up in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What is changed of a model.

    Raises
    ------
    OptionError
        If a value is unknown, or nothing is in mixed precision that an accumulator is for.
    """

    desired_layout: str | None = None
    """Layout of convolutions: ``"NCHW"`` or ``"NHWC"``. None leaves them as they are, but ``tune``
    for a CPU tries NCHW where they have another one, and keeps what is faster."""
    mixed_precision: bool = False
    """Whether products are computed in float16, and what is safe with it."""
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
        """Whether there is anything to do."""
        return self.desired_layout is not None or self.mixed_precision

    def as_text(self) -> str:
        """The options, as they are written in a call."""
        texts = []
        if self.desired_layout is not None:
            texts.append(f"desired_layout={self.desired_layout!r}")
        if self.mixed_precision:
            texts.append("mixed_precision=True")
            texts.append(f"mixed_precision_acc_type={self.mixed_precision_acc_type!r}")
        return ", ".join(texts) or "layouts and types as they are"


AS_IT_IS = Conversion()
