"""Relay as the passes see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.relay.dataflow import has_main
from tvm_ios.relay.extract import is_prepared
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.obstacles import find_obstacles
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import is_partitioned
from tvm_ios.relay.transforms.channel_padding import pad_channels

__all__ = [
    "built",
    "is_partitioned",
    "pad_unless_done",
    "prepare_unless_done",
    "resolve_target",
    "rewrite",
]


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


def pad_unless_done(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> tvm.IRModule:
    """Module whose output channels fill whole vectors; the same one if it is prepared."""
    if is_partitioned(mod) or is_prepared(mod) or (has_main(mod) and find_obstacles(mod)):
        return mod
    padded_mod, padded = pad_channels(mod, params, target)
    return padded_mod if padded or params else mod


def built(prepared: PreparedModule, libraries: tuple[str, ...] | None) -> BuiltModel:
    """Build of a prepared module, with the operator libraries that may compute."""
    choice = LibraryChoice(target=prepared.target, names=libraries)
    installed = choice.installed()
    return replace(build_prepared(prepared), libraries=installed)
