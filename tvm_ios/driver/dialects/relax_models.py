"""Files of models, inputs and targets in Relax: ONNX alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import tvm

from tvm_ios.driver.dialects.onnx_front import module_of
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.relax.frontends.onnx import import_onnx, refusals
from tvm_ios.relax.ir import name_of, static_tensors
from tvm_ios.relax.prepare import bound_module
from tvm_ios.relax.target import resolve_target

__all__ = ["FILE_SUFFIXES", "imported", "input_shapes", "read_file", "resolve_target"]

FILE_SUFFIXES = (ONNX_SUFFIX,)
"""Endings of files that are read."""


def imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Module of an ONNX file, cut before what onnxruntime is to run, and no parameters.

    Its constants are the weights.
    """
    return module_of(file, import_onnx, refusals), {}


def read_file(path: Path, params: str | Path | None) -> NoReturn:
    """Refuse a file that is not ONNX."""
    del params
    raise ModelError(
        f"{str(path)!r} is no {ONNX_SUFFIX} file, and files of Relay are for a TVM with Relay; "
        "give an ONNX file, in Python a module of Relax, or --dialect relay"
    )


def input_shapes(mod: tvm.IRModule) -> dict[str, tuple[int, ...]]:
    """Shape of each variable of ``main``."""
    found = {}
    for each in bound_module(mod, None)["main"].params:
        tensors = static_tensors(each.ty)
        if tensors is None:
            raise ModelError(
                f"input {name_of(each)!r} is a {each.ty}, whose shape is not known; give the model "
                "in static shapes"
            )
        found[name_of(each)] = tensors[0].shape
    return found
