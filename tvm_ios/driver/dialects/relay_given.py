"""Models as users name them, in Relay: our networks, ONNX, files of Relay; what names a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from tvm_ios.core.fused_function import TensorType
from tvm_ios.driver.dialects.onnx_front import module_of
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.relay.context import valued_model_digest
from tvm_ios.relay.inputs import check_module, resolve_target, weight_inputs
from tvm_ios.relay.model_file import MODEL_SUFFIXES
from tvm_ios.relay.model_file import read_model as read_file
from tvm_ios.tuning.records.record_lookup import contexts_around

__all__ = [
    "FILE_SUFFIXES",
    "contexts_around",
    "imported",
    "input_types",
    "read_file",
    "target_text",
    "valued_model_digest",
]

FILE_SUFFIXES = (*MODEL_SUFFIXES, ONNX_SUFFIX)
"""Endings of files that are read."""


def imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    """Module and parameters of an ONNX file, cut before what onnxruntime is to run."""
    # The package onnx, which this needs, is there: the file was read by it.
    from tvm_ios.relay.frontends.onnx.importer import import_onnx, refusals  # noqa: PLC0415

    mod = module_of(file, import_onnx, refusals)
    # What the file has as an input is one on purpose, and no parameter that somebody forgot.
    return mod, None if weight_inputs(mod["main"]) else {}


def target_text(target: Any) -> str:
    """Text of a target, its host included."""
    resolved = resolve_target(target)
    return str(resolved) if resolved.host is None else f"{resolved} for {resolved.host}"


def input_types(mod: tvm.IRModule, params: Mapping[str, Any]) -> dict[str, TensorType]:
    """Shape and type of each input of a module that is no parameter, by name."""
    types = {
        each.name_hint: each.checked_type
        for each in check_module(mod)["main"].params
        if each.name_hint not in params
    }
    return {
        name: TensorType(tuple(map(int, type_.shape)), str(type_.dtype))
        for name, type_ in types.items()
    }
