"""Networks of TVM's own tests and benchmarks (``tvm.relay.testing``).

The artifact of Ansor (Zheng et al., OSDI 2020) uses them. Weights are drawn here, since TVM's
initialiser seeds all of NumPy, and calls carry the names of their layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import tvm
from tvm import relay

from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models.builder import KEEPS_SIGNAL
from tvm_ios.models.weights import Network, Weights, named

__all__ = ["dcgan", "resnet3d_18"]

_LAYERS = 18
_SMALLEST_IMAGE = 33
"""Smallest height and width of an image; for smaller ones TVM builds other layers."""


def dcgan(*, batch_size: int = 1, features: int = 128, seed: int = 0) -> Network:
    """DCGAN's generator (Radford et al., ICLR 2016): four transposed 4x4 convolutions of stride 2.

    ``main`` maps codes, ``(batch_size, 100)``, to images, ``(batch_size, 3, 64, 64)``. The last
    layer reads ``features`` channels; TVM and Ansor take 128.

    Raises
    ------
    ModelError
        If pytest, which TVM's collection imports, is not installed.
    """
    if min(batch_size, features) < 1:
        raise OptionError(
            f"dcgan: batch_size is {batch_size} and features {features}; both must be at least 1"
        )
    return _seeded(_of_tvm("dcgan").get_net(batch_size, ngf=features), seed)


def resnet3d_18(
    *, batch_size: int = 1, frames: int = 16, image_size: int = 112, seed: int = 0
) -> Network:
    """ResNet-18 of three dimensions (Hara et al., CVPR 2018), as TVM has it, with 1000 classes.

    Batch normalisation and a rectifier come before each convolution, and the first block has a
    convolution in its shortcut; otherwise the layers are those of torchvision's ``r3d_18``.
    ``main`` maps ``(batch_size, 3, frames, image_size, image_size)`` to ``(batch_size, 1000)``,
    for images of at least 33 pixels. Errors are those of :func:`dcgan`.
    """
    if min(batch_size, frames) < 1 or image_size < _SMALLEST_IMAGE:
        raise OptionError(
            f"resnet3d_18: batch_size is {batch_size}, frames {frames} and image_size {image_size}"
            f"; clips and frames must be at least 1 and images at least {_SMALLEST_IMAGE} high"
        )
    shape = (3, frames, image_size, image_size)
    return _seeded(
        _of_tvm("resnet_3d").get_net(batch_size, 1000, num_layers=_LAYERS, image_shape=shape), seed
    )


def _of_tvm(name: str) -> Any:
    """Module of TVM's collection, imported only on demand: TVM's own tests need pytest."""
    try:
        return import_module(f"tvm.relay.testing.{name}")
    except ModuleNotFoundError as error:
        raise ModelError(
            f"TVM's collection of networks, tvm.relay.testing, cannot be imported ({error}); "
            "run: pip install pytest"
        ) from error


def _seeded(function: relay.Function, seed: int) -> Network:
    """Network with weights of ours, and calls that name their layers."""
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    data, *weights = module["main"].params
    drawn = Weights(data, seed)
    layers = _Layers({variable: _draw(drawn, variable) for variable in weights})
    return drawn.network(layers.visit(module["main"].body))


def _draw(weights: Weights, variable: relay.Var) -> relay.Var:
    name = variable.name_hint
    shape = tuple(int(extent) for extent in variable.checked_type.shape)
    if name.endswith("_deconv_weight"):
        # Channels read come first, and of a window's places a fourth meets an output.
        inputs = shape[0] * math.prod(shape[2:]) / 4
        return weights.draw(name, shape, KEEPS_SIGNAL / math.sqrt(inputs))
    if name.endswith("_weight"):
        return weights.draw(name, shape, KEEPS_SIGNAL / math.sqrt(math.prod(shape[1:])))
    if name.endswith("_moving_var"):
        return weights.draw(name, shape, 0.5, around=1.0)
    return weights.draw(name, shape, 1.0)


class _Layers(relay.ExprMutator):  # type: ignore[misc]  # TVM has no types
    """Mutator that names every call after the layer of its weights, or of its first operand."""

    def __init__(self, drawn: Mapping[relay.Var, relay.Var]) -> None:
        super().__init__()
        self._drawn = drawn

    def visit_var(self, var: relay.Var) -> relay.Var:
        """Weight in place of a variable, or the input itself."""
        return self._drawn.get(var, var)

    def visit_call(self, call: relay.Call) -> relay.Call:
        """Call with the name of its layer."""
        return named(_layer_of(call), super().visit_call(call))


def _layer_of(call: relay.Expr) -> str:
    """Layer's name in TVM's names of weights; a layer's first weight comes behind its data."""
    while True:
        if isinstance(call, relay.TupleGetItem):
            call = call.tuple_value
        elif len(call.args) > 1 and isinstance(call.args[1], relay.Var):
            return str(call.args[1].name_hint).rpartition("_")[0]
        else:
            call = call.args[0]
