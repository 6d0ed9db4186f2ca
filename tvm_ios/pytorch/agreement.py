"""Whether a part that was compiled gives what torch gave, for the same tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["disagreement"]

_TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-2, torch.float16: 0.1}
"""Of a value and of the largest: errors of rounding are less, what is computed wrong is more."""
_UNITS = 16
"""Rounding of the largest input, in units of its last place, that results of any size may have."""
_MASKED = 1e4
"""From here on a value may be a mask, whose size tells nothing of the others."""
_ODD = 0.01
"""Which part of whole numbers and truth values may differ, as where a value is next to a limit."""


def disagreement(
    found: Sequence[torch.Tensor],
    wanted: Sequence[torch.Tensor],
    inputs: Sequence[Any] = (),
) -> str | None:
    """How results differ beyond what rounding explains; None where they do not."""
    given = (each for each in inputs if isinstance(each, torch.Tensor))
    largest_input = max([1.0, *(_largest(each) for each in given if each.is_floating_point())])
    for place, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if not theirs.is_floating_point():
            is_odd, allowed = ours != theirs, _ODD * theirs.numel()
        else:
            rtol = _TOLERANCES.get(theirs.dtype, 0.1)
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
    """The largest absolute value that is no mask; of such ones alone, the least."""
    sizes = values.double().abs()
    usual = sizes[sizes < _MASKED]
    if usual.numel():
        return float(usual.max())
    finite = sizes[sizes.isfinite()]
    return float(finite.min()) if finite.numel() else 0.0
