"""Models as users name them, in Relax: ONNX alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import tvm

from tvm_ios.core.fused_function import TensorType
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.relax.frontends.onnx import import_onnx
from tvm_ios.relax.ir import main_of, name_of, static_tensors

__all__ = ["imported", "input_types", "named_model"]


def imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Module and parameters of an ONNX file: none, since its constants are the weights."""
    return import_onnx(file.name, file.model), {}


def named_model(name: str, params: str | Path | None, shapes: InputShapes) -> NoReturn:
    """Refuse: our networks and files of Relay need Relay."""
    del params, shapes
    raise ModelError(
        f"{name!r} is no {ONNX_SUFFIX} file, and networks by name and files of Relay are for a TVM "
        "with Relay; give an ONNX file, in Python a module of Relax, or --dialect relay"
    )


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
