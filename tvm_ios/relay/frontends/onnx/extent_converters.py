"""Converters for operators in which TVM's importer gets extents wrong: indices, sizes, pads."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError

__all__ = ["EXTENT_CONVERTERS", "original"]


def original(name: str) -> Any:
    """TVM's own converter of an operator."""
    return getattr(frontend, name).get_converter(frontend.GraphProto.current.opset)


def _with_indices(name: str) -> Any:
    """Converter of GatherND or ScatterND; TVM's own takes negative indices for places outside."""

    def convert(inputs: Any, attributes: Any, params: Any) -> Any:
        data, indices = inputs[0], inputs[1]
        dtype = frontend.infer_type(indices).checked_type.dtype
        extents = frontend.infer_shape(data)[attributes.get("batch_dims", 0) :]
        extents = relay.const(list(extents[: frontend.infer_shape(indices)[-1]]), dtype)
        negative = indices < relay.const(0, dtype)
        indices = frontend.fold_constant(relay.where(negative, indices + extents, indices))
        return original(name)([data, indices, *inputs[2:]], attributes, params)

    return convert


def _eye_like(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """Ones on a diagonal; TVM's own writes outside the matrix for all but the main one."""
    shape, dtype = frontend.infer_shape(inputs[0]), attributes.get("dtype")
    if dtype is None:
        dtype = frontend.infer_type(inputs[0]).checked_type.dtype
    else:
        dtype = frontend.get_type(dtype)
    rows, columns = shape
    return relay.const(np.eye(rows, columns, k=attributes.get("k", 0), dtype=dtype), dtype)


def _shape(inputs: Any, attributes: Any, params: Any) -> Any:
    """Extents of a tensor; TVM's own takes an end of 0 for none."""
    if attributes.get("end") == 0:
        attributes["end"] = -len(frontend.infer_shape(inputs[0]))  # the same place
    return original("Shape")(inputs, attributes, params)


ATTRIBUTES_OF_RESIZE = 11
"""The opset from which attributes say how Resize rounds, and scales are the third input."""


def _resize(inputs: Any, attributes: Any, params: Any) -> Any:
    """An image of another size; TVM's own takes scales from whole sizes, and knows NCHW alone."""
    opset = frontend.GraphProto.current.opset
    value = original("Resize")(inputs, attributes, params)
    scales, sizes = inputs[1 if opset < ATTRIBUTES_OF_RESIZE else 2], inputs[3]
    shape = np.array(frontend.infer_shape(inputs[0]))
    if isinstance(sizes, relay.Constant):
        wanted = sizes.data.numpy()
    elif isinstance(scales, relay.Constant) and scales.data.numpy().size == shape.size:
        wanted = shape.astype("float32") * scales.data.numpy()
    else:
        return value
    if (wanted - np.floor(wanted) > 1e-5 * wanted).any():
        raise ModelError(
            f"has scales that make {wanted.tolist()} of {shape.tolist()}, which are no whole "
            "sizes; give the input sizes in place of scales"
        )
    if (np.floor(wanted) != shape)[:2].any():
        raise ModelError(
            f"makes {wanted.tolist()} of {shape.tolist()}, and TVM's importer leaves the first "
            "two axes as they are; transpose the image to NCHW before"
        )
    nearest = opset < ATTRIBUTES_OF_RESIZE and attributes.get("mode", b"nearest") == b"nearest"
    if nearest and (shape % np.minimum(np.floor(wanted), shape)).any():
        raise ModelError(
            f"makes {wanted.tolist()} of {shape.tolist()}, which TVM's importer rounds otherwise "
            "in opset 10; save the model in opset 11 or later"
        )
    return value


def _conv_transpose(inputs: Any, attributes: Any, params: Any) -> Any:
    """A transposed convolution; TVM's own pads where auto_pad or output_shape mean to cut."""
    mode = attributes.pop("auto_pad", b"NOTSET").decode()
    if mode.startswith("SAME") or "output_shape" in attributes:
        attributes["pads"] = _pads_of_transposed(inputs, attributes, mode)
    return original("ConvTranspose")(inputs, attributes, params)


def _pads_of_transposed(inputs: Any, attributes: Any, mode: str) -> list[int]:
    """Pads of a transposed convolution whose result has a given size: all begins, all ends."""
    shape, kernel = (np.array(frontend.infer_shape(each)[2:]) for each in inputs[:2])
    ones = np.ones_like(kernel)
    strides = np.array(attributes.get("strides", ones))
    wanted = attributes.pop("output_shape", shape * strides)
    full = strides * (shape - 1) + (kernel - 1) * attributes.get("dilations", ones) + 1
    pads = full + attributes.get("output_padding", 0 * ones) - wanted
    if (pads < 0).any():
        raise ModelError(
            f"has auto_pad={mode} and is to give {list(map(int, wanted))}, more than it computes; "
            "give pads and output_padding in place of auto_pad and output_shape"
        )
    less, more = pads // 2, pads - pads // 2
    return [int(n) for n in np.concatenate([less, more] if "UPPER" in mode else [more, less])]


def _recurrent(name: str) -> Any:
    """Converter of LSTM or RNN; TVM's own passes over the lengths of sequences."""

    def convert(inputs: Any, attributes: Any, params: Any) -> Any:
        lengths = inputs[4]
        longest = frontend.infer_shape(inputs[0])[attributes.get("layout", 0)]
        if lengths is not None and not (
            isinstance(lengths, relay.Constant) and (lengths.data.numpy() == longest).all()
        ):
            raise ModelError(
                f"has sequence_lens that may differ from {longest}, and TVM's importer passes "
                "over them; leave that input out and give sequences of one length, or take a GRU"
            )
        return original(name)(inputs, attributes, params)

    return convert


EXTENT_CONVERTERS = {
    "ConvTranspose": _conv_transpose,
    "EyeLike": _eye_like,
    "GatherND": _with_indices("GatherND"),
    "LSTM": _recurrent("LSTM"),
    "RNN": _recurrent("RNN"),
    "Resize": _resize,
    "ScatterND": _with_indices("ScatterND"),
    "Shape": _shape,
}
"""Converters by operator, for all opsets."""
