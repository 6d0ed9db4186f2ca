"""Contexts within the caller's PassContext, for kernels while TVM lowers or builds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tvm.ir.transform import PassContext

__all__ = ["LOWER_PASSES", "lowering_with", "nested_context"]

LOWER_PASSES = "tir.add_lower_pass"
"""Option of a PassContext with passes for TVM's lowering, each with the phase it goes after. No
text says what they do."""


def nested_context(
    config: Mapping[str, Any],
    *,
    disabled: Iterable[str] = (),
    instruments: Iterable[Any] = (),
    opt_level: int | None = None,
) -> AbstractContextManager[None]:
    """Context that is the present one, with more configuration and with more passes disabled.

    The present one's instruments are left out: TVM would tell them of this context's end.
    ``opt_level`` is that of the present one where omitted.
    """
    current = PassContext.current()
    nested: AbstractContextManager[None] = PassContext(
        opt_level=current.opt_level if opt_level is None else opt_level,
        required_pass=list(current.required_pass),
        instruments=list(instruments),
        disabled_pass=[*current.disabled_pass, *disabled],
        config=dict(current.config.items()) | dict(config),
    )
    return nested


def lowering_with(passes: Sequence[tuple[int, Any]]) -> AbstractContextManager[None]:
    """Context in which TVM's lowering has more passes, each with the phase it goes after."""
    before = PassContext.current().config.get(LOWER_PASSES, ())
    return nested_context({LOWER_PASSES: [*before, *passes]})
