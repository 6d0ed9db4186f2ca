"""Relax as the passes see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi

from tvm_ios import errors
from tvm_ios.compile.relax_model import RelaxModel, build_relax
from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.errors import OptionError
from tvm_ios.relax.prepare import PreparedModule, prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.relax.stage_ir import is_partitioned
from tvm_ios.relax.target import resolve_target

__all__ = [
    "built",
    "is_partitioned",
    "pad_unless_done",
    "prepare_unless_done",
    "resolve_target",
    "rewrite",
]


# TVM-FFI carries exceptions of Python through C++ by the names of their classes.
for _error in vars(errors).values():
    if isinstance(_error, type) and issubclass(_error, errors.TvmIosError):
        tvm_ffi.register_error(_error.__name__, _error)


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Module that is prepared; None for one that is partitioned, or no straight line of calls."""
    if conversion.changes:
        raise OptionError(
            f"{conversion.as_text()}: Relax models are compiled as they are; convert the model "
            "before, such as by tvm.relax.transform.ConvertLayout, and leave out conversion"
        )
    if is_partitioned(mod):
        return None
    prepared = prepare(mod, params, target)
    return None if prepared.extraction.line.obstacles else prepared


def pad_unless_done(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> tvm.IRModule:
    """Refuse: only Relay models are padded."""
    del mod, params, target
    raise OptionError("PadChannels works on Relay only; leave it out for Relax modules")


def built(prepared: PreparedModule, libraries: tuple[str, ...] | None) -> RelaxModel:
    """Build of a prepared module; no operator library computes for it."""
    del libraries
    return build_relax(prepared.module, None, prepared.target)
