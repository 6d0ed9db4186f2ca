"""Models in files: Relay as JSON or text with parameters beside it, and ONNX.

What comes before the front door: a path in, the module and its parameters out.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.ir import diagnostics

from tvm_ios.errors import ModelError
from tvm_ios.relay.context import reason_of

__all__ = ["MODEL_SUFFIXES", "read_model"]

MODEL_SUFFIXES = (".json", ".relay", ".txt", ".onnx")
"""Relay in JSON, Relay as text, and ONNX."""

Model = tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]


def read_model(path: str | Path, params: str | Path | None = None) -> Model:
    """Read a model by the suffix of its file.

    Parameters
    ----------
    path
        ``.json`` as ``tvm.ir.save_json`` writes it, ``.relay`` or ``.txt`` as ``mod.astext()``
        does, or ``.onnx``.
    params
        Parameters by name: ``.npz``, or what ``tvm.runtime.save_param_dict`` gives. An ONNX file
        holds its own.

    Raises
    ------
    ModelError
        If a file cannot be read, is malformed, or needs a package that is not installed.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in MODEL_SUFFIXES:
        raise ModelError(
            f"{path} does not say what it is; give a file that ends in {', '.join(MODEL_SUFFIXES)}"
        )
    if suffix == ".onnx":
        if params is not None:
            raise ModelError(f"{path} holds its own parameters; leave out {params}")
        return _read_onnx(path)
    content = _content(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is no text: {error}") from error
    mod = _from_json(text, path) if suffix == ".json" else _from_text(text, path)
    return mod, {} if params is None else _read_params(Path(params))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error}") from error


def _from_json(text: str, path: Path) -> tvm.IRModule:
    try:
        found = tvm.ir.load_json(text)
    # TVM mends the text of older versions in Python first, which fails in whatever way it can.
    except (tvm.TVMError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ModelError(
            f"{path} is not what tvm.ir.save_json writes: {type(error).__name__}: "
            f"{reason_of(error)}"
        ) from error
    if isinstance(found, relay.Function):
        found = tvm.IRModule.from_expr(found)
    if not isinstance(found, tvm.IRModule):
        raise ModelError(f"{path} holds a {type(found).__name__}; save a Relay module (IRModule)")
    return found


def _from_text(text: str, path: Path) -> tvm.IRModule:
    with _collected_diagnostics() as found:
        try:
            return relay.parse(text, path.name)
        except tvm.TVMError as error:
            where = found[0] if found else reason_of(error)
            raise ModelError(
                f"{path} is no Relay text: {where}; save what mod.astext() gives, or use "
                "tvm.ir.save_json, which also takes names that the text format does not"
            ) from error


@contextmanager
def _collected_diagnostics() -> Iterator[list[str]]:
    """Gather what TVM's parser would print, line after line of source with it."""
    found: list[str] = []

    def collect(context: Any) -> None:
        for each in context.diagnostics:
            where = f"line {each.span.line}, column {each.span.column}: " if each.span else ""
            found.append(where + " ".join(str(each.message).split()))

    diagnostics.override_renderer(collect)
    try:
        yield found
    finally:
        diagnostics.override_renderer(None)


def _read_params(path: Path) -> dict[str, tvm.nd.NDArray]:
    content = _content(path)
    if path.suffix.lower() == ".npz":
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return {name: tvm.nd.array(array) for name, array in arrays.items()}
        except (ValueError, OSError, EOFError) as error:
            raise ModelError(f"{path} holds no arrays: {error}") from error
    try:
        return dict(tvm.runtime.load_param_dict(content))
    except tvm.TVMError as error:
        raise ModelError(
            f"{path} is not what tvm.runtime.save_param_dict gives: {reason_of(error)}; "
            "numpy's format ends in .npz"
        ) from error


def _read_onnx(path: Path) -> Model:
    try:
        onnx = importlib.import_module("onnx")
    except ImportError as error:
        raise ModelError(
            f"{path} needs the package onnx, which cannot be imported ({error}); run: python -m "
            "pip install onnx, or save the model as Relay with tvm.ir.save_json"
        ) from error
    content = _content(path)
    try:
        model = onnx.load_model_from_string(content)
        with _onnx_mapping(onnx):
            mod, params = relay.frontend.from_onnx(model)
    # Protobuf and TVM's front end each have errors of their own, for files of any kind.
    except Exception as error:
        raise ModelError(
            f"{path} cannot be read as ONNX: {type(error).__name__}: {reason_of(error)}"
        ) from error
    return mod, dict(params)


@contextmanager
def _onnx_mapping(onnx: ModuleType) -> Iterator[None]:
    """Lend TVM's front end a module that onnx 1.15 deprecated and later ones lack."""
    name = "onnx.mapping"
    if importlib.util.find_spec(name) is not None:
        yield
        return
    lent = ModuleType(name)
    kinds = [kind for kind in onnx.TensorProto.DataType.values() if kind]
    lent.TENSOR_TYPE_TO_NP_TYPE = {  # type: ignore[attr-defined]
        kind: onnx.helper.tensor_dtype_to_np_dtype(kind) for kind in kinds
    }
    sys.modules[name] = lent
    try:
        yield
    finally:
        del sys.modules[name]
