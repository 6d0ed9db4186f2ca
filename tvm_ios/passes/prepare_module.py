"""The pass ``tvm_ios.PrepareModule``: goes first; a user's module in, a fused module out.

It runs TVM's graph pipeline, so no fusing pass is needed before or after it. A module with control
flow or dynamic shapes, or a prepared one, is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.errors import OptionError
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.whole_number import require_flags

__all__ = ["PrepareModule"]


# At level 0 it runs in a PassContext of any level.
@tvm.transform.module_pass(opt_level=0, name="tvm_ios.PrepareModule")
@dataclass(frozen=True, kw_only=True)
class PrepareModule:
    """Pass that binds parameters, simplifies, folds, chooses layouts and fuses."""

    target: Any
    """Target, in any form :class:`tvm.target.Target` takes."""
    params: Mapping[str, Any] | None = None
    """Parameters by name; None where weights are inputs on purpose."""
    conversion: Conversion = AS_IT_IS
    """Changes of layouts and data types, which come first."""
    exact: bool = False
    """True leaves out changes after which results differ from stock TVM's in the last places."""

    def __post_init__(self) -> None:
        if not isinstance(self.conversion, Conversion):
            raise OptionError(f"conversion is {self.conversion!r}; give a Conversion")
        require_flags(self)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Module that the pass returns; TVM calls this."""
        with exact_bits(self.exact):
            prepared = dialect_here().prepare_unless_done(
                mod, self.params, self.target, self.conversion
            )
        return mod if prepared is None else prepared.module
