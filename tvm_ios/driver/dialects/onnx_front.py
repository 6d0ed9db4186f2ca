"""A model in ONNX as a module of TVM, cut before what onnxruntime is to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm

from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.runtime.base.module_attributes import with_rest

__all__ = ["module_of"]


def module_of(
    file: OnnxFile,
    import_onnx: Callable[[str, Any], tvm.IRModule],
    refusals: Callable[[str, Any], Mapping[Any, str]],
) -> tvm.IRModule:
    """Module of a file, by the importer of a dialect; of its front where nodes are refused.

    ``refusals`` are the nodes of a model that the importer refuses, with messages.
    """
    try:
        return import_onnx(file.name, file.model)
    except ModelError:
        refused = refusals(file.name, file.model)
        if not refused:
            raise
        front, rest = file.cut(refused)
        return with_rest(import_onnx(file.name, front), rest)
