"""Models of the kinds that TVM's importer got wrong, or refused, compute what onnxruntime does.

Names with control characters are refused before a model is read: ``tests/driver/test_onnx_file.py``
has that.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tvm_ios
from tests.onnx.forms import outputs_of, parsed
from tvm_ios.driver.model_source import from_onnx
from tvm_ios.host import host_target

LAYERS = """(float[2,2,2] x, float[2,{gates},2] w1, float[2,{gates},3] w2, float[2,{both}] w3)
=> (y0, y1) <int32[2] lengths = {{2, 1}}> {{
  y0, y1 = {kind} <hidden_size = 3, direction = "bidirectional", clip = 0.2> (
    x, w1, w2, w3, lengths
  )
}}"""
QUICK = f"{host_target()} -opt-level=0"
"""LLVM need not optimise what runs once."""
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RESIZES = """(float[1,2,5,7] x) => (y0, y1) <float[4] down = {1, 1, 0.5, 0.7},
float[4] up = {1, 1, 1.5, 1.3}, float[0] none = {}> {
  y0 = Resize <mode = "linear"> (x, NONE down)
  y1 = Resize <mode = "nearest"> (x, NONE up)
}"""
MODELS = {
    "Clip with one bound": (
        [11, 13],
        """(float[2,3] x) => (y0, y1) <float low = {-0.1}, float high = {0.2}> {
          y0 = Clip (x, low) y1 = Clip (x, , high)
        }""",
    ),
    "ScatterND and GatherND with negative indices": (
        [13],
        """(float[3,4] x, float[2,4] u) => (y0, y1)
        <int64[2,1] rows = {-1, 1}, int64[2,2] places = {-1, 0, 2, -3}> {
          y0 = ScatterND (x, rows, u) y1 = GatherND (x, places)
        }""",
    ),
    "EyeLike below the diagonal": (
        [9],
        "(float[4,3] x) => (y) { e = EyeLike <k = -1> (x) y = Add (x, e) }",
    ),
    "Resize by scales that give no whole size, opset 10": ([10], RESIZES.replace("NONE", "")),
    "Resize by scales that give no whole size": ([11, 13, 18], RESIZES.replace("NONE", "none,")),
    **{
        f"{kind} of two directions with lengths and a clip": (
            [11],
            LAYERS.format(kind=kind, gates=3 * gates, both=6 * gates),
        )
        for kind, gates in GATES.items()
    },
    "ConvTranspose with auto_pad": (
        [7, 11],
        """(float[1,2,4,5] x, float[2,3,3,3] w) => (y0, y1) {
          y0 = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)
          y1 = ConvTranspose <auto_pad = "SAME_LOWER", strides = [2, 2]> (x, w)
        }""",
    ),
    "ConvTranspose with groups and a dilation": (
        [11],
        """(float[1,4,4,5] x, float[4,3,3,3] w) => (y) {
          y = ConvTranspose <
            group = 2, dilations = [2, 1], strides = [2, 3], pads = [1, 0, 2, 1]
          > (x, w)
        }""",
    ),
    "Shape up to dimension 0": (
        [15],
        """(float[2,3,4] x) => (y) <int64[1] rest = {-1}> {
          none = Shape <end = 0> (x) flat = Concat <axis = 0> (none, rest) y = Reshape (x, flat)
        }""",
    ),
    "LpPool with auto_pad": (
        [11, 18],
        """(float[1,2,7,8] x) => (y0, y1) {
          y0 = LpPool <auto_pad = "SAME_UPPER", kernel_shape = [2, 3], strides = [2, 2]> (x)
          y1 = LpPool <auto_pad = "SAME_LOWER", kernel_shape = [3, 2], strides = [1, 3], p = 1> (x)
        }""",
    ),
    "constant If that reads an input": (
        [13],
        """(float[2,3] x) => (y) <bool yes = {1}> {
          y = If (yes) <
            then_branch = one () => (a) { a = Mul (x, x) },
            else_branch = two () => (b) { b = Neg (x) }
          >
        }""",
    ),
    "global pooling of lines": (
        [11],
        """(float[2,8,9] x) => (y0, y1) {
          z = Relu (x) y0 = GlobalAveragePool (z) y1 = GlobalMaxPool (x)
        }""",
    ),
    "MaxPool with the places of its results": (
        [12],
        """(float[1,2,5,6] x) => (y0, y1) {
          y0, y1 = MaxPool <kernel_shape = [2, 3], strides = [2, 1], pads = [1, 0, 0, 1]> (x)
        }""",
    ),
    "Pad with axes": (
        [18],
        """(float[2,3,4] x) => (y0, y1) <int64[4] pads = {1, 2, 0, 1}, int64[2] axes = {-1, 1}> {
          y0 = Pad <mode = "reflect"> (x, pads, , axes) y1 = Pad (x, pads, , axes)
        }""",
    ),
    "LpNormalization": (
        [11],
        "(float[2,3,4] x) => (y0, y1)"
        "{ y0 = LpNormalization <p = 1, axis = 1> (x) y1 = LpNormalization (x) }",
    ),
    "Conv with an empty name of a bias": (
        [11],
        "(float[1,2,5,5] x, float[3,2,3,3] w) => (y) { y = Conv (x, w, ) }",
    ),
    "MatMul that broadcasts": (
        [13],
        """(float[2,1,3,4] x, float[5,4,2] u, float[4] v) => (y0, y1, y2) {
          y0 = MatMul (x, u) y1 = MatMul (x, v) y2 = MatMul (v, u)
        }""",
    ),
    "Loop of known length": (
        [13],
        """(float[2,3] x) => (y0, y1) <int64 rounds = {3}, bool go = {1}> {
          y0, y1 = Loop (rounds, go, x) <
            body = step (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t, float[2,3] u) {
              d = Identity (c) t = Mul (s, x) u = Neg (t)
            }
          >
        }""",
    ),
    "Scan of known length": (
        [11],
        """(float[2,3] x, float[4,2,3] steps) => (y0, y1) {
          y0, y1 = Scan (x, steps) <
            num_scan_inputs = 1,
            body = step (float[2,3] s, float[2,3] n) => (float[2,3] t, float[2,3] u) {
              t = Mul (s, n) u = Sub (t, n)
            }
          >
        }""",
    ),
    "QLinearGlobalAveragePool with channels first": (
        [13],
        """(float[1,3,4,5] x) => (float[1,3,1,1] y)
        <float s = {0.02}, float t = {0.01}, uint8 z = {128}> {
          q = QuantizeLinear (x, s, z)
          p = com.microsoft.QLinearGlobalAveragePool <channels_last = 0> (q, s, z, t, z)
          y = DequantizeLinear (p, t, z)
        }""",
    ),
    "convolution and pooling of volumes": (
        [13],
        """(float[1,4,5,6,7] x, float[6,2,3,3,3] w) => (y0, y1, y2) {
          y0 = Conv <group = 2, strides = [1, 2, 2], pads = [1, 1, 1, 1, 1, 0]> (x, w)
          y1 = MaxPool <kernel_shape = [2, 3, 2], strides = [2, 1, 2]> (x)
          y2 = AveragePool <kernel_shape = [2, 2, 3], pads = [1, 0, 1, 0, 1, 1]> (x)
        }""",
    ),
}


def drawn(model):
    """Normal numbers for each input of a model, the same in each run."""
    draws = np.random.default_rng(0)
    return {
        value.name: draws.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim], "float32"
        )
        for value in model.graph.input
    }


def with_weights(model):
    """The model whose inputs that begin with ``w`` are constants, with the types of its outputs."""
    weights = {name: value for name, value in drawn(model).items() if name.startswith("w")}
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in weights.items())
    for value in [value for value in model.graph.input if value.name in weights]:
        model.graph.input.remove(value)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        pytest.param(
            text,
            opset,
            id=f"{name}, {opset}",
            marks=[pytest.mark.slow(2)] if name.endswith("a clip") else [],
        )
        for name, (opsets, text) in MODELS.items()
        for opset in opsets
    ],
)
def test_found_models_compute_what_onnxruntime_does(text, opset):
    model = parsed(f"agraph {text}", opset=opset)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    model = with_weights(model)
    inputs = drawn(model)
    module, _ = from_onnx(model, {name: value.shape for name, value in inputs.items()})
    with tvm_ios.compile_schedule(module, target=QUICK).executor() as executor:
        executor.run(**inputs)
        found = [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]
        for got, wanted in zip(found, outputs_of(model, inputs, by="runtime"), strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
