"""Recognises functions that a value is multiplied by: swish, GELU, Mish. No TVM."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose, sqrt

from tvm_ios.runtime.libraries.onednn.call import Step, StepKind

__all__ = ["read_gate"]

PRECISION = 1e-6
"""Relative error allowed in a constant: networks round theirs to float32."""
GREATEST_GATE = 1e6
"""Limit of the value that a gate rises to; a gate without limit would be 0 times infinity."""

SOFTPLUS_TANH = [StepKind.EXP, StepKind.LINEAR, StepKind.LOG, StepKind.TANH]


def read_gate(chain: Sequence[Step]) -> tuple[Step, ...]:
    """Step for a value times a chain of steps of itself, then its scale; empty for other chains."""
    if [step.kind for step in chain] == SOFTPLUS_TANH and _near(_line(chain[1:2]), (1.0, 1.0)):
        return Step(kind=StepKind.MISH), _scaled(1.0)
    before, middle, after = _parted(chain)
    if middle is None:
        return ()
    factor, addend = after
    match middle.kind:
        case StepKind.SIGMOID if _near((before[1], addend), (0.0, 0.0)):
            return Step(kind=StepKind.SWISH, alpha=before[0]), _scaled(factor)
        case StepKind.ERF if _near((*before, addend), (sqrt(0.5), 0.0, factor)):
            return Step(kind=StepKind.GELU), _scaled(2 * factor)
        case StepKind.CLIP:
            low, high = (factor * end + addend for end in (middle.alpha, middle.beta))
            if not _near((low,), (0.0,)) or not 0 < high < GREATEST_GATE:
                return ()
            alpha, beta = (before[0] * factor / high, (before[1] * factor + addend) / high)
            return Step(kind=StepKind.HARD_SWISH, alpha=alpha, beta=beta), _scaled(high)
        case _:
            return ()


def _scaled(factor: float) -> Step:
    return Step(kind=StepKind.LINEAR, alpha=factor)


def _parted(
    chain: Sequence[Step],
) -> tuple[tuple[float, float], Step | None, tuple[float, float]]:
    """Factor and addend before the one step that is not linear, that step, and those after it."""
    bent = [step for step in chain if step.kind is not StepKind.LINEAR]
    if len(bent) != 1:
        return (1.0, 0.0), None, (1.0, 0.0)
    place = chain.index(bent[0])
    return _line(chain[:place]), bent[0], _line(chain[place + 1 :])


def _line(steps: Sequence[Step]) -> tuple[float, float]:
    factor, addend = 1.0, 0.0
    for step in steps:
        factor, addend = factor * step.alpha, addend * step.alpha + step.beta
    return factor, addend


def _near(values: Sequence[float], wanted: Sequence[float]) -> bool:
    pairs = zip(values, wanted, strict=True)
    return all(isclose(value, want, rel_tol=PRECISION, abs_tol=PRECISION) for value, want in pairs)
