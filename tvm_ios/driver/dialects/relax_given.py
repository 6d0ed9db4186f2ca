"""Files of models in Relax, which are ONNX alone, and what names a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import tvm

from tvm_ios.core.fused_function import TensorType
from tvm_ios.driver.dialects.onnx_front import module_of
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.relax.frontends.onnx import import_onnx, refusals
from tvm_ios.relax.ir import name_of, static_tensors
from tvm_ios.relax.model_digest import valued_model_digest
from tvm_ios.relax.prepare import bound_module, params_by_name
from tvm_ios.relax.target import resolve_target
from tvm_ios.relax.tuned_loops import database_in_force

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


def target_text(target: Any) -> str:
    """Text of a target."""
    return str(resolve_target(target))


def contexts_around() -> tuple[Any, ...]:
    """Databases of tuned loops that are in force around the call."""
    database = database_in_force()
    return () if database is None else (database,)


def input_types(mod: tvm.IRModule, params: Mapping[str, Any]) -> dict[str, TensorType]:
    """Shape and type of each input of a module that is no parameter, by name."""
    found = {}
    main = bound_module(mod, None)["main"]
    given = params_by_name(main, params)
    for each in main.params:
        tensors = static_tensors(each.ty)
        if tensors is None:
            raise ModelError(
                f"input {name_of(each)!r} is a {each.ty}, whose shape is not known; give the model "
                "in static shapes"
            )
        if name_of(each) not in given:
            found[name_of(each)] = TensorType(tensors[0].shape, tensors[0].dtype)
    return found
