"""onnxruntime with the rest of a model, on values of its front. Free of TVM."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.onnx.rest import INSTALL_RUNTIME, Rest
from tvm_ios.support.error_text import lines_that_tell

__all__ = ["RestSession", "onnxruntime_for"]

_TYPES = frozenset(
    {"tensor(bool)", "tensor(float16)", "tensor(float)", "tensor(double)"}
    | {f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Types of outputs, as onnxruntime writes them, that TVM's arrays have."""
_ERRORS_ONLY = 3
"""Level from which on onnxruntime prints messages: it warns of shapes that it infers anew."""


def onnxruntime_for(name: str) -> Any:
    """The package onnxruntime, which a model needs; HostError says how to install it."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise HostError(
            f"{name} has nodes that onnxruntime runs, which cannot be imported ({error}); run: "
            f"{INSTALL_RUNTIME}"
        ) from error


class RestSession:
    """The rest of a model, loaded by onnxruntime, and its outputs of the last run.

    Raises HostError without onnxruntime, or where that cannot load it. It gets as many threads as
    the front has lanes, and they do not spin: the front needs the cores next.
    """

    def __init__(self, rest: Rest, *, lanes: int) -> None:
        self.outputs = rest.outputs
        self._rest = rest
        self._arrays: dict[str, Any] = {}
        onnxruntime = onnxruntime_for(rest.name)
        self.version = str(onnxruntime.__version__)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        options.intra_op_num_threads = lanes
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                rest.model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # it has many, and no base of them
            raise HostError(
                f"{rest.name}: onnxruntime {self.version} cannot load the rest of the model: "
                f"{_line(error)}; install a newer one"
            ) from error
        self._inputs = [value.name for value in self._session.get_inputs()]
        self._made = [value.name for value in self._session.get_outputs()]

    def require_tensors(self) -> None:
        """Refuse outputs that no array of TVM can hold."""
        for value in self._session.get_outputs():
            if value.type not in _TYPES:
                raise HostError(f"its output {value.name!r} is a {value.type}, which TVM lacks")

    def run(self, front: Callable[[int], np.ndarray], given: Callable[[str], np.ndarray]) -> None:
        """Run it on outputs of the front, by number, and on inputs of the whole model, by name."""
        place = {name: number for number, name in enumerate(self._rest.fronts)}
        values = {
            name: front(place[name]) if name in place else given(name) for name in self._inputs
        }
        try:
            made = self._session.run(self._made, values)
        except Exception as error:  # as above
            raise ExecutionError(
                f"onnxruntime {self.version} cannot run the rest of {self._rest.name}: "
                f"{_line(error)}"
            ) from error
        own = {name: front(place[name]) for name in self.outputs if name in place}
        self._arrays = own | dict(zip(self._made, made, strict=True))

    def output(self, number: int | str) -> np.ndarray:
        """Output of the whole model, by number."""
        if isinstance(number, str) or not 0 <= number < len(self.outputs):
            raise ExecutionError(
                f"no output {number!r}; there are {len(self.outputs)}, counted from 0"
            )
        if not self._arrays:
            raise ExecutionError("outputs have no shape before the first run; call run() first")
        return np.asarray(self._arrays[self.outputs[number]])


def _line(error: Exception) -> str:
    return lines_that_tell(error, type(error).__name__)[0]
