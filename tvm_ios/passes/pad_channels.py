"""The pass ``tvm_ios.PadChannels``: goes before ``PrepareModule``; plain Relay in, plain Relay out.

Convolutions of NCHW data, and dense layers of four rows or more, get more output channels where
theirs fill no whole number of vectors (:mod:`tvm_ios.relay.transforms.channel_padding`). If any do,
batched products with one matrix for the whole batch become dense layers, too. A prepared or
partitioned module, or one with control flow or dynamic shapes, is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.compile.dialects.dialect import dialect_here

__all__ = ["PadChannels"]


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.PadChannels")
@dataclass(frozen=True, kw_only=True)
class PadChannels:
    """Pass that binds parameters, and pads output channels to whole vectors."""

    target: Any
    """Target, in any form :class:`tvm.target.Target` takes, which gives the width of a vector."""
    params: Mapping[str, Any] | None = None
    """Parameters by name; only operators with constant weights are padded."""

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Module that the pass returns; TVM calls this."""
        return dialect_here().pad_unless_done(mod, self.params, self.target)
