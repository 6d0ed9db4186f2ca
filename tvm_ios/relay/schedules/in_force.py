"""Context in which TVM lowers element-wise kernels and reductions by schedules of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from types import ModuleType
from typing import Any

import tvm
from tvm import te, topi
from tvm.ir.transform import PassContext

from tvm_ios.kernels.lowering_context import lowering_with
from tvm_ios.relay.schedules.concatenations import concatenated, schedule_concatenation
from tvm_ios.relay.schedules.element_wise import schedule_element_wise
from tvm_ios.relay.schedules.reductions import schedule_reduction
from tvm_ios.relay.schedules.resizes import resized
from tvm_ios.relay.schedules.whole_vectors import whole_vectors
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["own_schedules"]

FLAT = 1
"""Phase of TVM's lowering in which buffers are flat and loops not yet vectors."""
OWN: dict[tuple[ModuleType, str], Callable[..., te.Schedule | te.Tensor | None]] = {
    (topi.x86, "concatenate"): concatenated,
    (topi.x86, "schedule_concatenate_cpu"): schedule_concatenation,
    (topi.x86, "schedule_injective"): schedule_element_wise,
    (topi.x86, "schedule_reduce"): schedule_reduction,
    (topi.x86, "schedule_adaptive_pool"): schedule_reduction,
    (topi.image, "resize2d"): resized,
}
"""Ours, by module and name of TVM's that does what ours leaves."""


@contextmanager
def own_schedules(target: tvm.target.Target) -> Iterator[None]:
    """Context of lowering on this thread; changes nothing where stock TVM's bits are wanted.

    Nor for other devices than CPUs, or where instruments of the caller watch the lowering. TVM
    calls its schedules by name, so they are exchanged meanwhile; other threads get TVM's own.
    """
    wanted = target.kind.name == "llvm" and bits_may_change()
    if not wanted or len(PassContext.current().instruments):
        yield
        return
    theirs = {place: getattr(*place) for place in OWN}
    for place, stock in theirs.items():
        setattr(*place, partial(_made, OWN[place], stock, get_ident()))
    try:
        with lowering_with([(FLAT, whole_vectors)]):
            yield
    finally:
        for place, stock in theirs.items():
            setattr(*place, stock)


def _made(
    own: Callable[..., Any], stock: Callable[..., Any], thread: int, *arguments: Any, **named: Any
) -> Any:
    """Answer of ours to TVM, or of its own function where ours has none."""
    made = own(*arguments, **named) if get_ident() == thread else None
    return stock(*arguments, **named) if made is None else made
