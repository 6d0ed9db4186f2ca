"""Models as users name them, in Relay: our networks, ONNX, and files of Relay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from tvm_ios.driver.dialects.onnx_front import module_of
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.relay.inputs import resolve_target, weight_inputs
from tvm_ios.relay.model_file import MODEL_SUFFIXES, read_model

__all__ = ["FILE_SUFFIXES", "imported", "input_shapes", "read_file", "resolve_target"]

FILE_SUFFIXES = (*MODEL_SUFFIXES, ONNX_SUFFIX)
"""Endings of files that are read."""


def imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    """Module and parameters of an ONNX file, cut before what onnxruntime is to run."""
    # The package onnx, which this needs, is there: the file was read by it.
    from tvm_ios.relay.frontends.onnx.importer import import_onnx, refusals  # noqa: PLC0415

    mod = module_of(file, import_onnx, refusals)
    # What the file has as an input is one on purpose, and no parameter that somebody forgot.
    return mod, None if weight_inputs(mod["main"]) else {}


def read_file(path: Path, params: str | Path | None) -> Any:
    """Module and parameters of a file that is not ONNX."""
    return read_model(path, params)


def input_shapes(mod: tvm.IRModule) -> dict[str, tuple[int, ...]]:
    """Shape of each variable of ``main``."""
    return {
        each.name_hint: tuple(int(extent) for extent in each.checked_type.shape)
        for each in tvm.relay.transform.InferType()(mod)["main"].params
    }
