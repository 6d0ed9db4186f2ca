"""Files of models in Relax: ONNX alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import tvm

from tvm_ios.driver.onnx_file import ONNX_SUFFIX, OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.relax.frontends.onnx import import_onnx

__all__ = ["FILE_SUFFIXES", "imported", "read_file"]

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
