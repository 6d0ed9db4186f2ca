"""Checks of values that callers give an executor: values of inputs, and numbers of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.core.parts import output_names
from tvm_ios.errors import ExecutionError
from tvm_ios.plan.data_type import numpy_dtype
from tvm_ios.plan.plan import ExecutionPlan, Tensor
from tvm_ios.runtime.base.tvm_names import Array, from_dlpack, in_words
from tvm_ios.support.whole_number import as_whole

__all__ = ["input_value", "output_tensor"]

_NUMBERS = "biuf"
"""NumPy's kinds of truth values, integers and floats."""


def input_value(where: str, tensor: Tensor, value: Any) -> Any:
    """A value as an array of the shape and data type of a tensor.

    Arrays must have both already. Numbers and lists of them are converted, as long as no truth
    value or integer changes by it and no float becomes infinite. Tensors of PyTorch may lie on a
    GPU and need a gradient. ``where`` is for messages, such as ``input 'data'``.
    """
    if isinstance(value, (bool, int, float, list, tuple)):
        value = _converted(where, tensor, value)
    array = value if isinstance(value, Array) else _as_array(where, tensor, value)
    if tuple(array.shape) != tensor.shape or str(array.dtype) != tensor.dtype:
        raise ExecutionError(
            f"{where} is {tensor.dtype}{tensor.shape}, but {array.dtype}{tuple(array.shape)} was "
            "given; convert it first"
        )
    return array


def output_tensor(plan: ExecutionPlan, key: Any) -> int:
    """Index of the tensor of an output, by the output's number, of any integer type, or its name.

    Outputs of networks that were joined from several models have names.
    """
    names = output_names(plan.parts)
    number = names.get(key) if isinstance(key, str) else as_whole(key)
    if number is None or not 0 <= number < len(plan.outputs):
        named = f" and named {', '.join(names)}" if names else ""
        raise ExecutionError(
            f"no output {key!r}; outputs are numbered 0 to {len(plan.outputs) - 1}{named}"
        )
    return plan.outputs[number]


def _converted(where: str, tensor: Tensor, value: Any) -> np.ndarray:
    wanted = numpy_dtype(tensor.dtype)
    try:
        return _as_numbers(np.asarray(value), wanted)
    except (TypeError, ValueError, ArithmeticError) as error:
        remedy = "give rows of equal length with numbers that fit"
        raise _impossible(where, tensor, value, error, remedy) from error


def _as_array(where: str, tensor: Tensor, value: Any) -> Any:
    """A tensor of another library as an array, also one on a GPU, with a gradient or of bfloat16.

    NumPy refuses those; TVM takes neither strides nor unaligned parts of tensors: hence the copy.
    """
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        try:
            return from_dlpack(value.detach().clone().contiguous())
        except (AttributeError, TypeError, ValueError, RuntimeError, BufferError):
            remedy = in_words("give a NumPy array or a tvm.nd.NDArray")
            raise _impossible(where, tensor, value, error, remedy) from error


def _impossible(
    where: str, tensor: Tensor, value: Any, error: Exception, remedy: str
) -> ExecutionError:
    return ExecutionError(
        f"{where} is {tensor.dtype}{tensor.shape}, and no such array can be made of the "
        f"{type(value).__name__} given: {' '.join(str(error).split())}; {remedy}"
    )


def _as_numbers(given: np.ndarray, wanted: np.dtype[Any]) -> np.ndarray:
    """Numbers in the data type that is wanted; only floats may be rounded."""
    if given.dtype.kind not in _NUMBERS:
        raise TypeError(f"it holds {given.dtype}, no numbers")
    with np.errstate(over="raise", invalid="raise"):
        array = given.astype(wanted)
    if wanted.kind != "f" and (array != given).any():
        raise ValueError(f"it holds numbers that {wanted} does not")
    return array
