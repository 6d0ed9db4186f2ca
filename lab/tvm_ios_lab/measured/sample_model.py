"""The sample network of the published README: four convolutions, three of one input, joined."""

from __future__ import annotations

from tvm_ios.models.builder import NetworkBuilder, Tensor
from tvm_ios.models.weights import Network

__all__ = ["sample_network"]


def sample_network(*, batch_size: int = 1, seed: int = 0) -> Network:
    """Convolutions of 3x3 with 375, 750 and 375 outputs, and one of 750 behind the first, joined.

    The published code declares it with an input of 375x15x15 (its README, section 3).
    """
    net = NetworkBuilder(batch_size=batch_size, channels=375, height=15, width=15, seed=seed)

    def convolve(name: str, operand: Tensor, channels: int) -> Tensor:
        return net.convolution(name, operand, channels, kernel=(3, 3), padding=(1, 1))

    first = convolve("conv1", net.input, 375)
    second = convolve("conv2", net.input, 750)
    third = convolve("conv3", net.input, 375)
    fourth = convolve("conv4", first, 750)
    return net.finish(net.combine("join", [[fourth], [second], [third]]))
