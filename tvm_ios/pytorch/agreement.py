"""Agreement of a compiled part's results with torch's, for the same tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["QUANTISED", "disagreement"]

QUANTISED = 0.1
"""Relative tolerance of models that round to whole numbers: what lies in the middle of two quanta
may become either, and layers that follow make more of a quantum."""

_TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-2, torch.float16: 0.1}
"""Tolerances relative to a value and to the largest: above rounding errors, below wrong results."""
_UNITS = 16
"""Rounding of the largest input, in units of its last place, that results of any size may have."""
_MASKED = 1e4
"""Absolute value from which on a value may be a mask, whose size says nothing of the others."""
_ODD = 0.01
"""Share of whole numbers and truth values that may differ, as where a value is next to a limit."""


def disagreement(
    found: Sequence[torch.Tensor],
    wanted: Sequence[torch.Tensor],
    inputs: Sequence[Any] = (),
    *,
    max_relative_error: float = 0.0,
) -> str | None:
    """Text on how results differ beyond rounding, or beyond a larger error; None if they do not."""
    given = (each for each in inputs if isinstance(each, torch.Tensor))
    largest_input = max([1.0, *(_largest(each) for each in given if each.is_floating_point())])
    for place, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if not theirs.is_floating_point():
            is_odd, allowed = ours != theirs, _ODD * theirs.numel()
        else:
            rtol = max(_TOLERANCES.get(theirs.dtype, 0.1), max_relative_error)
            noise = _UNITS * torch.finfo(theirs.dtype).eps * largest_input
            is_odd = ~torch.isclose(
                ours.double(),
                theirs.double(),
                rtol=rtol,
                atol=rtol * _largest(theirs) + noise,
                equal_nan=True,
            )
            allowed = 0.0
        odd = int(is_odd.sum())
        if odd > allowed:
            return f"{odd} of {theirs.numel()} values of output {place} differ"
    return None


def _largest(values: torch.Tensor) -> float:
    """Largest absolute value that is no mask; the least mask where there are only masks."""
    sizes = values.double().abs()
    usual = sizes[sizes < _MASKED]
    if usual.numel():
        return float(usual.max())
    finite = sizes[sizes.isfinite()]
    return float(finite.min()) if finite.numel() else 0.0
