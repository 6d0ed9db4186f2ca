"""Whether a caller works inside a ``PassContext``, which may hold functions that no text tells."""

from __future__ import annotations

import tvm

__all__ = ["caller_entered_a_context"]

DEFAULT_OPT_LEVEL = 2
"""Level of the context that TVM has when nobody entered one."""


def caller_entered_a_context() -> bool:
    """True if the caller has entered a PassContext, which may look like TVM's own."""
    current = tvm.transform.PassContext.current()
    if (
        current.opt_level != DEFAULT_OPT_LEVEL
        or len(current.required_pass)
        or len(current.disabled_pass)
        or len(current.instruments)
        or len(current.config)
    ):
        return True
    # One that is entered may look like TVM's own. Only the stack knows, and TVM refuses to leave a
    # context that is not on it. There are no instruments here that would notice.
    try:
        current.__exit__(None, None, None)
    except RuntimeError:
        return False
    current.__enter__()
    return True
