"""Names of the benchmark networks, for a command line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

from tvm_ios.errors import OptionError
from tvm_ios.models.bert import bert_base
from tvm_ios.models.densenet import densenet_121
from tvm_ios.models.googlenet import googlenet
from tvm_ios.models.inception import inception_v3
from tvm_ios.models.mobilenet import mobilenet_v2, mobilenet_v3_large
from tvm_ios.models.nasnet import nasnet_large, nasnet_small
from tvm_ios.models.randwire import randwire, randwire_small
from tvm_ios.models.resnet import resnet_50
from tvm_ios.models.squeezenet import squeezenet
from tvm_ios.models.tvm_testing import dcgan, resnet3d_18
from tvm_ios.models.unet import unet
from tvm_ios.models.weights import Network
from tvm_ios.support.near_name import did_you_mean

__all__ = ["MODEL_NAMES", "NetworkFactory", "by_name"]


class NetworkFactory(Protocol):
    """Function that builds a network.

    It may have further options: ``image_size`` is height and width of the NCHW images, in pixels.
    """

    def __call__(self, *, batch_size: int = 1, seed: int = 0) -> Network:
        """Network and its weights, float32.

        Parameters
        ----------
        batch_size
            Number of images, or of sequences, clips or codes, in the input.
        seed
            Seed of the weights; equal arguments give equal weights.

        Raises
        ------
        OptionError
            If a size or a count is too small, or does not fit the others.
        """
        ...


_FACTORIES: Mapping[str, NetworkFactory] = MappingProxyType(
    {
        "bert_base": bert_base,
        "dcgan": dcgan,
        "densenet_121": densenet_121,
        "googlenet": googlenet,
        "inception_v3": inception_v3,
        "mobilenet_v2": mobilenet_v2,
        "mobilenet_v3_large": mobilenet_v3_large,
        "nasnet_large": nasnet_large,
        "nasnet_small": nasnet_small,
        "nasnet_small_c44": partial(nasnet_small, filters=44, size=28),
        "randwire": randwire,
        "randwire_small": randwire_small,
        "resnet3d_18": resnet3d_18,
        "resnet_50": resnet_50,
        "squeezenet": squeezenet,
        "unet": unet,
    }
)

MODEL_NAMES = tuple(_FACTORIES)


def by_name(name: str) -> NetworkFactory:
    """Function that builds a network; ``nasnet_small_c44`` has 44 filters at 28x28.

    The name is one of :data:`MODEL_NAMES`, with underscores or hyphens.

    Raises
    ------
    OptionError
        If there is no such network; the message lists all names.
    """
    factory = _FACTORIES.get(name.replace("-", "_"))
    if factory is None:
        raise OptionError(
            f"no network named {name!r}; choose one of {', '.join(MODEL_NAMES)}"
            f"{did_you_mean(name.replace('-', '_'), MODEL_NAMES)}"
        )
    return factory
