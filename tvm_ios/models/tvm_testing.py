"""Networks of TVM's own tests and benchmarks (``tvm.relay.testing``).

The artifact of Ansor (Zheng et al., OSDI 2020) uses them. Weights are drawn here, since TVM's
initialiser seeds all of NumPy, and calls carry the names of their layers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models.operators import IS_RELAX
from tvm_ios.models.weights import Network

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
        If pytest, which TVM's collection imports, is not installed, or this TVM has no Relay.
    """
    if min(batch_size, features) < 1:
        raise OptionError(
            f"dcgan: batch_size is {batch_size} and features {features}; both must be at least 1"
        )
    return _of_tvm("dcgan", seed, batch_size, ngf=features)


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
    return _of_tvm("resnet_3d", seed, batch_size, 1000, num_layers=_LAYERS, image_shape=shape)


def _of_tvm(name: str, seed: int, *sizes: int, **options: Any) -> Network:
    """Network of TVM's collection, imported only on demand: TVM's own tests need pytest."""
    if IS_RELAX:
        raise ModelError(
            f"{name} is of TVM's collection of networks in Relay, tvm.relay.testing, which the TVM "
            "of this process does not have; give another network, or --dialect relay (in Python: "
            "without TVM_IOS_TVM=path)"
        )
    try:
        collection = import_module(f"tvm.relay.testing.{name}")
    except ModuleNotFoundError as error:
        raise ModelError(
            f"TVM's collection of networks, tvm.relay.testing, cannot be imported ({error}); "
            "run: pip install pytest"
        ) from error
    from tvm_ios.models.seeded_network import seeded_network  # noqa: PLC0415 - of Relay alone

    return seeded_network(collection.get_net(*sizes, **options), seed)
