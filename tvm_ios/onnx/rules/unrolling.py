"""Steps that loops and recurrent layers are unrolled into, each with nodes of its own."""

from __future__ import annotations

from tvm_ios.errors import ModelError

__all__ = ["MOST_STEPS", "require_few"]

MOST_STEPS = 2048
"""Steps of one loop or recurrent layer; each becomes nodes, and kernels later."""


def require_few(steps: int) -> None:
    """Raise ModelError for a node that takes too many steps to be unrolled."""
    if steps > MOST_STEPS:
        raise ModelError(
            f"takes {steps} steps, and is unrolled up to {MOST_STEPS}; give shorter sequences or "
            "fewer steps"
        )
