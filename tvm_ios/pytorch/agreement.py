"""Whether a part that was compiled gives what torch gave, for the same tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["disagreement"]

_TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-2, torch.float16: 0.1}
"""Of the largest value: errors of rounding are less, and what is computed wrong is more."""
_ODD = 0.01
"""Which part of whole numbers and truth values may differ, as where a value is next to a limit."""


def disagreement(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> str | None:
    """How results differ beyond what rounding explains; None where they do not."""
    for place, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if not theirs.is_floating_point():
            is_odd = ours != theirs
        else:
            both = ours.double(), theirs.double()
            largest = both[1][both[1].isfinite()].abs().max() if both[1].isfinite().any() else 0.0
            atol = float(_TOLERANCES.get(theirs.dtype, 0.1) * largest)
            is_odd = ~torch.isclose(*both, rtol=0.0, atol=atol, equal_nan=True)
        odd = int(is_odd.sum())
        if odd > (0 if theirs.is_floating_point() else _ODD * theirs.numel()):
            return f"{odd} of {theirs.numel()} values of output {place} differ"
    return None
