"""The pass ``tvm_ios.PrepareModule``: goes first; a user's module in, a fused module out.

It runs TVM's graph pipeline, so no fusing pass is needed before or after it. A module with control
flow or dynamic shapes, or a prepared one, is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.errors import OptionError
from tvm_ios.relay.dataflow import has_main
from tvm_ios.relay.extract import is_prepared
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.obstacles import find_obstacles
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.stage_ir import is_partitioned
from tvm_ios.support.exact_bits import exact_bits

__all__ = ["PrepareModule", "prepare_unless_done"]


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Module that is prepared; None for a module that is partitioned or has control flow."""
    if is_partitioned(mod):
        return None
    if is_prepared(mod):
        return PreparedModule(module=mod, params={}, target=resolve_target(target))
    if has_main(mod) and find_obstacles(mod):
        return None
    return prepare(mod, params, target, conversion=conversion)


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
        if not isinstance(self.exact, bool):
            raise OptionError(f"exact is {self.exact!r}; give True or False")

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Module that the pass returns; TVM calls this."""
        with exact_bits(self.exact):
            prepared = prepare_unless_done(mod, self.params, self.target, self.conversion)
        return mod if prepared is None else prepared.module
