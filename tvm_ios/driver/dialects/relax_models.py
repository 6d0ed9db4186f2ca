"""Files of models in Relax, which are ONNX alone, and what names a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import tvm

from tvm_ios.core.fused_function import TensorType
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.relax.frontends.onnx import import_onnx
from tvm_ios.relax.ir import main_of, name_of, static_tensors
from tvm_ios.relax.model_digest import valued_model_digest
from tvm_ios.relax.target import resolve_target

__all__ = [
    "FILE_SUFFIXES",
    "contexts_around",
    "imported",
    "input_types",
    "read_file",
    "target_text",
    "valued_model_digest",
]

FILE_SUFFIXES = (ONNX_SUFFIX,)
"""Endings of files that are read."""


def imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Module and parameters of an ONNX file: none, since its constants are the weights."""
    return import_onnx(file.name, file.model), {}


def read_file(path: Path, params: str | Path | None) -> NoReturn:
    """Refuse a file that is not ONNX."""
    del params
    raise ModelError(
        f"{str(path)!r} is no {ONNX_SUFFIX} file, and files of Relay are for a TVM with Relay; "
        "give an ONNX file, in Python a module of Relax, or --dialect relay"
    )


def target_text(target: Any) -> str:
    """Text of a target."""
    return str(resolve_target(target))


def contexts_around() -> tuple[()]:
    """Tuners whose records are in force around the call, of which there are none."""
    return ()


def input_types(mod: tvm.IRModule, params: Mapping[str, Any]) -> dict[str, TensorType]:
    """Shape and type of each input of a module that is no parameter, by name."""
    main = main_of(mod)
    types = {name_of(each): static_tensors(each.ty) or () for each in main.params} if main else {}
    return {
        name: TensorType(tensor.shape, tensor.dtype)
        for name, tensors in types.items()
        for tensor in tensors
        if name not in params
    }
