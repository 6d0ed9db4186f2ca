"""Concatenations that are computed with what is fused with them, in one loop over memory.

TVM's own for x86 copies the pieces into memory of their own first, and then computes one element
after the other on one lane. Here a loop over memory asks at its begin which piece it is of.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, topi

from tvm_ios.relay.schedules.element_wise import schedule_element_wise
from tvm_ios.relay.schedules.flat_axes import extents_of

__all__ = ["MOST_PIECES", "concatenated", "schedule_concatenation"]

MOST_PIECES = 8
"""Pieces up to which asking takes less time than copying: each costs a comparison in each loop."""


def concatenated(pieces: Sequence[te.Tensor], axis: int = 0) -> te.Tensor | None:
    """Concatenation that is computed element by element; None where copies are faster."""
    shape = extents_of(pieces[0].shape)
    if shape is None or len(pieces) > MOST_PIECES:
        return None
    return topi.concatenate(tuple(pieces), axis)


def schedule_concatenation(outs: te.Tensor | Sequence[te.Tensor]) -> te.Schedule | None:
    """Schedule of operators with such a concatenation among them; None for one that copies."""
    results = [outs] if isinstance(outs, te.Tensor) else list(outs)
    if any(map(_copies, results)):
        return None
    return schedule_element_wise(results) or topi.x86.schedule_concatenate(results)


def _copies(result: te.Tensor) -> bool:
    """True if a tensor is made from one that code outside of TE writes."""
    waiting, seen = [result.op], set()
    while waiting:
        operation = waiting.pop()
        if isinstance(operation, te.ExternOp):
            return True
        if operation not in seen:
            seen.add(operation)
            waiting += [tensor.op for tensor in operation.input_tensors]
    return False
