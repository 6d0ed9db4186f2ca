"""The largest tensor that a model may have here: one that this machine's memory holds."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from tvm_ios.errors import ModelError

__all__ = ["require_size"]


def require_size(what: str, shape: Sequence[int], bits: int) -> None:
    """Refuse a tensor that is larger than the memory, before TVM or a kernel makes it.

    ``what`` says who has it, with a verb: ``input 'x' is``. ``bits`` are those of one element.
    """
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = math.prod(shape) * bits // 8
    if size > most:
        raise ModelError(
            f"{what} a tensor of shape {list(shape)} and {size} bytes, more than the {most} bytes "
            "of this machine's memory; give a model with smaller shapes"
        )
