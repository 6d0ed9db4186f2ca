"""Networks of the zoo with fewer of what repeats in them."""

from __future__ import annotations

from importlib import import_module
from unittest.mock import patch

from tvm_ios.models import Network, squeezenet, unet

__all__ = ["few_fires", "narrow_unet"]


def few_fires(*, image_size: int = 32, batch_size: int = 1) -> Network:
    """SqueezeNet's third to fifth fire module, of which the second reads its input unchanged."""
    module = import_module(squeezenet.__module__)
    with patch.object(module, "_FIRES", module._FIRES[2:5]):
        return squeezenet(image_size=image_size, batch_size=batch_size)


def narrow_unet(*, batch_size: int = 1) -> Network:
    """U-Net with two levels of 16 and 32 channels above the lowest, which has 64."""
    module = import_module(unet.__module__)
    with patch.multiple(module, _WIDTH=16, _HALVINGS=2):
        return unet(image_size=16, batch_size=batch_size)
