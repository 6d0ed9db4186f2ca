"""Models that ``onnx_export.py`` has written, quantised in the forms that people have.

``PYTHON -m tvm_ios_lab.scripts.onnx_quantise FOLDER`` with an interpreter that has onnxruntime
and sympy writes ``resnet18.qdq_per_channel.onnx`` beside ``resnet18.old.onnx``, and so on. Ranges
come from a few inputs of normal numbers. What is there is not written again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.calibrate import CalibrationDataReader
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process

NAMES = ("bert_4_layers", "mobilenetv2_100", "resnet18", "vit_4_layers")


def _in_blocks(source: str, target: str, *, bits: int) -> None:
    """Quantise weights of products by blocks of 32, symmetrically, and nothing else."""
    made = MatMulNBitsQuantizer(source, bits=bits, block_size=32, is_symmetric=True)
    made.process()
    onnx.save(made.model.model, target)


def _by_column(source: str, target: str) -> None:
    """Quantise weights of products by column, as constants that DequantizeLinear reads."""
    model = onnx.load(source)
    weights = {each.name: each for each in model.graph.initializer}
    read = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"} & {*weights}
    for name in sorted(read):
        weight = numpy_helper.to_array(weights[name])
        scale = np.abs(weight).max(axis=0) / np.float32(127)
        steps = np.rint(weight / np.where(scale == 0, np.float32(1), scale)).astype("int8")
        model.graph.initializer.remove(weights[name])
        given = [f"{name}_steps", f"{name}_scale"]
        model.graph.initializer.extend(
            map(numpy_helper.from_array, (steps, scale), given),
        )
        model.graph.node.insert(0, helper.make_node("DequantizeLinear", given, [name], axis=1))
    onnx.save(model, target)


WEIGHTS: dict[str, Callable[..., None]] = {
    "weights_4": partial(_in_blocks, bits=4),
    "weights_8": partial(_in_blocks, bits=8),
    "weights_8_qdq": _by_column,
}
"""Forms in which weights alone are quantised, as those of language models are."""
FORMS: dict[str, Callable[..., None]] = {
    **WEIGHTS,
    "dynamic": partial(quantize_dynamic, weight_type=QuantType.QInt8),
    "qdq_per_channel": partial(
        quantize_static,
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    ),
    "qdq_per_tensor": partial(
        quantize_static,
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    ),
    "qoperator": partial(
        quantize_static,
        quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QUInt8,
    ),
}
"""Functions that quantise, by the part that they add to a file's name."""
WITHOUT_SAMPLES = frozenset({"dynamic", *WEIGHTS})
"""Forms that need no ranges of values."""


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """A few inputs of a model, from which ranges are taken."""

    def __init__(self, path: Path) -> None:
        self._drawn = iter([dict(_inputs(onnx.load(path), seed)) for seed in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Inputs by name; None after the last ones."""
        return next(self._drawn, None)


def _inputs(model: Any, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    draws = np.random.default_rng(seed)
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type == onnx.TensorProto.FLOAT:
            yield value.name, draws.standard_normal(shape, "float32")
        else:
            yield value.name, draws.integers(1, 100, shape)  # a mask of ones


def main() -> None:
    """Quantise each model in each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name in NAMES:
        plain, cleaned = folder / f"{name}.old.onnx", folder / f"{name}.cleaned"
        for form, quantise in FORMS.items():
            path = folder / f"{name}.{form}.onnx"
            if not path.exists():
                if not cleaned.exists():
                    quant_pre_process(str(plain), str(cleaned), skip_symbolic_shape=True)
                samples = (
                    {} if form in WITHOUT_SAMPLES else {"calibration_data_reader": Samples(plain)}
                )
                quantise(str(cleaned), str(path), **samples)
        cleaned.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
