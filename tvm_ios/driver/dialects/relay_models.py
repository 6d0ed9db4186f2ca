"""Models as users name them, in Relay: our networks, ONNX, and files of Relay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.core.fused_function import TensorType
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models import MODEL_NAMES, by_name
from tvm_ios.relay.inputs import check_module, weight_inputs
from tvm_ios.relay.model_file import MODEL_SUFFIXES, read_model
from tvm_ios.relay.module_attributes import with_rest
from tvm_ios.support.near_name import did_you_mean

__all__ = ["imported", "input_types", "named_model"]


def imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    """Module and parameters of an ONNX file, cut before what onnxruntime is to run."""
    # The package onnx, which this needs, is there: the file was read by it.
    from tvm_ios.relay.frontends.onnx.importer import import_onnx, refusals  # noqa: PLC0415

    try:
        mod = import_onnx(file.name, file.model)
    except ModelError:
        refused = refusals(file.name, file.model)
        if not refused:
            raise
        front, rest = file.cut(refused)
        mod = with_rest(import_onnx(file.name, front), rest)
    # What the file has as an input is one on purpose, and no parameter that somebody forgot.
    return mod, None if weight_inputs(mod["main"]) else {}


def named_model(name: str, params: str | Path | None, shapes: InputShapes) -> Any:
    """Module and parameters of a network by name, or of a file that is not ONNX."""
    path = Path(name)
    if name.replace("-", "_") in MODEL_NAMES:
        if params is not None:
            raise OptionError(f"{name} has weights of its own; leave out --params {params}")
        if shapes.shapes:
            shapes.require_none(name)
        batch = shapes.batch_size
        return by_name(name)() if batch is None else by_name(name)(batch_size=batch)
    suffixes = (*MODEL_SUFFIXES, ONNX_SUFFIX)
    if path.suffix.lower() not in suffixes and not path.exists():
        raise ModelError(
            f"there is no network and no file named {name!r}; networks are "
            f"{', '.join(MODEL_NAMES)}, and files end in {', '.join(suffixes)}"
            f"{did_you_mean(name.replace('-', '_'), MODEL_NAMES)}"
        )
    shapes.require_none(name)
    return read_model(path, params)


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
