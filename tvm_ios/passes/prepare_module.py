"""The pass ``tvm_ios.PrepareModule``: goes first; a user's module in, a fused module out.

It runs TVM's graph pipeline, so no fusing pass is needed before or after it. A module with control
flow or dynamic shapes, and one that is prepared already, is returned as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.relay.conversion import AS_IT_IS, Conversion
from tvm_ios.relay.extract import is_prepared
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.obstacles import find_obstacles
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.stage_ir import is_partitioned

__all__ = ["PrepareModule", "prepare_unless_done"]


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Prepare a module; None where it is not for us: partitioned, or with control flow.

    Raises
    ------
    ModelError
        As :func:`tvm_ios.relay.prepare` does.
    """
    if is_partitioned(mod):
        return None
    if is_prepared(mod):
        return PreparedModule(module=mod, params={}, target=resolve_target(target))
    if _has_main(mod) and find_obstacles(mod):
        return None
    return prepare(mod, params, target, conversion=conversion)


def _has_main(mod: tvm.IRModule) -> bool:
    return "main" in {variable.name_hint for variable in mod.get_global_vars()}


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.PrepareModule")
@dataclass(frozen=True, kw_only=True)
class PrepareModule:
    """Bind parameters, simplify, fold, choose layouts and fuse."""

    target: Any
    """Anything :class:`tvm.target.Target` takes."""
    params: Mapping[str, Any] | None = None
    """Parameters by name; None where weights are inputs on purpose."""
    desired_layout: str | None = None
    """Layout of convolutions, ``"NCHW"`` or ``"NHWC"``; None leaves it."""
    mixed_precision: bool = False
    """Whether products are computed in float16."""
    mixed_precision_acc_type: str = "float32"
    """What sums of products are taken in: ``"float32"`` or ``"float16"``."""

    def __post_init__(self) -> None:
        self.conversion()

    def conversion(self) -> Conversion:
        """What is changed of the model.

        Raises
        ------
        OptionError
            If a value is unknown.
        """
        return Conversion(
            desired_layout=self.desired_layout,
            mixed_precision=self.mixed_precision,
            mixed_precision_acc_type=self.mixed_precision_acc_type,
        )

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Run the pass; TVM calls this."""
        prepared = prepare_unless_done(mod, self.params, self.target, self.conversion())
        return mod if prepared is None else prepared.module
