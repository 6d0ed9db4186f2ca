"""Models in files of Relay, as JSON or text with parameters beside it.

Comes before the front door: a path in, the module and its parameters out.
"""

from __future__ import annotations

from pathlib import Path

import tvm
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.relay.context import reason_of
from tvm_ios.relay.diagnostics import collected_diagnostics
from tvm_ios.support.named_arrays import named_arrays

__all__ = ["MODEL_SUFFIXES", "read_model"]

MODEL_SUFFIXES = (".json", ".relay", ".txt")
"""Suffixes of Relay in JSON, and of Relay as text."""

Model = tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]


def read_model(path: str | Path, params: str | Path | None = None) -> Model:
    """Module and parameters in files, read by their suffixes.

    Parameters
    ----------
    path
        ``.json`` as ``tvm.ir.save_json`` writes it, ``.relay`` or ``.txt`` as ``mod.astext()``
        does.
    params
        File with parameters by name: ``.npz``, or the bytes of ``tvm.runtime.save_param_dict``.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in MODEL_SUFFIXES:
        raise ModelError(
            f"{path} does not say what it is; give a file that ends in {', '.join(MODEL_SUFFIXES)}"
        )
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
    with collected_diagnostics() as found:
        try:
            return relay.parse(text, path.name)
        except tvm.TVMError as error:
            where = found[0] if found else reason_of(error)
            raise ModelError(
                f"{path} is no Relay text: {where}; save what mod.astext() gives, or use "
                "tvm.ir.save_json, which also takes names that the text format does not"
            ) from error


def _read_params(path: Path) -> dict[str, tvm.nd.NDArray]:
    content = _content(path)
    if path.suffix.lower() == ".npz":
        try:
            return {name: tvm.nd.array(array) for name, array in named_arrays(content).items()}
        except ValueError as error:
            raise ModelError(
                f"{path} holds no arrays by name: {error}; numpy.savez writes such a file"
            ) from error
    try:
        return dict(tvm.runtime.load_param_dict(content))
    except tvm.TVMError as error:
        raise ModelError(
            f"{path} is not what tvm.runtime.save_param_dict gives: {reason_of(error)}; "
            "numpy's format ends in .npz"
        ) from error
