"""U-Net (Ronneberger et al., MICCAI 2015), padded so that the output has the size of the input.

Four times down with max pooling, four times up with transposed convolutions, each time joined with
the tensor of that size on the way down. Batch normalisation is folded into the convolutions.
"""

from __future__ import annotations

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["unet"]

_WIDTH = 64
"""Number of channels at full size; they double with each halving."""
_HALVINGS = 4


def unet(*, batch_size: int = 1, image_size: int = 256, seed: int = 0) -> Network:
    """U-Net with one class, for images whose height and width are a multiple of 16.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to
    ``(batch_size, 1, image_size, image_size)``.
    """
    if image_size % (1 << _HALVINGS):
        raise OptionError(
            f"unet: image_size is {image_size}, but it is halved {_HALVINGS} times; use a multiple "
            f"of {1 << _HALVINGS}"
        )
    net = NetworkBuilder.of_images(batch_size=batch_size, image_size=image_size, seed=seed)
    value = _double_convolution(net, "down0", net.input, _WIDTH)
    kept = []
    for level in range(1, _HALVINGS + 1):
        kept.append(value)
        value = net.pool(f"down{level}.pool", value, Pooling.MAX, kernel=2, stride=2)
        value = _double_convolution(net, f"down{level}", value, _WIDTH << level)
    for level, skipped in reversed(list(enumerate(kept))):
        raised = net.transposed_convolution(f"up{level}.raise", value, skipped.channels)
        joined = net.combine(f"up{level}.concat", [[skipped], [raised]])
        value = _double_convolution(net, f"up{level}", joined, skipped.channels)
    return net.finish(net.convolution("classes", value, 1, activation=Activation.NONE))


def _double_convolution(net: NetworkBuilder, name: str, value: Tensor, channels: int) -> Tensor:
    for number in (1, 2):
        value = net.convolution(
            f"{name}.conv{number}", value, channels, kernel=(3, 3), padding=(1, 1)
        )
    return value
