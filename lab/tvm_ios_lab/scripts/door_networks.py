"""Networks in PyTorch as people write them, some of them those of ``tvm_ios.models``.

Each comes in the spellings that its authors and libraries use: batch norms behind convolutions,
views and permutes around attention, GELU as a function or a module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

__all__ = ["NETWORKS", "DoorNetwork"]

Make = Callable[[], nn.Module]


class WrittenLayer(nn.Module):  # type: ignore[misc]
    """Layer of BERT as its authors write it: products, a quotient, softmax."""

    def __init__(self, width: int, heads: int, wide: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)
        self.dropout, self.heads = nn.Dropout(0.1), heads

    def split(self, x: Tensor) -> Tensor:
        """Heads of rows."""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of each head."""
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
        return torch.matmul(self.dropout(scores.softmax(-1)), value)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of one encoder layer, [batch, rows, width]."""
        parts = (self.split(each(x)) for each in (self.query, self.key, self.value))
        mixed = self.attend(*parts).permute(0, 2, 1, 3).contiguous().view(x.shape)
        x = self.first(self.dropout(self.out(mixed)) + x)
        return self.second(self.dropout(self.down(F.gelu(self.up(x)))) + x)


class CalledLayer(WrittenLayer):
    """Encoder layer whose attention is torch's function."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of each head."""
        return F.scaled_dot_product_attention(query, key, value)


class Bert(nn.Module):  # type: ignore[misc]
    """BERT-base without the pooler, with two layers."""

    def __init__(self, layer: Callable[[int, int, int], nn.Module]) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(30522, 768), nn.Embedding(2, 768)
        self.places, self.norm = nn.Embedding(512, 768), nn.LayerNorm(768, eps=1e-12)
        self.layers = nn.ModuleList(layer(768, 12, 3072) for _ in range(2))
        self.register_buffer("numbers", torch.arange(512)[None])

    def forward(self, tokens: Tensor) -> Tensor:
        """Last states of tokens, [batch, rows, width]."""
        places = self.places(self.numbers[:, : tokens.shape[1]])
        x = self.norm(self.words(tokens) + self.kinds(torch.zeros_like(tokens)) + places)
        for layer in self.layers:
            x = layer(x)
        return x


def torchs_layer(width: int, heads: int, wide: int) -> nn.Module:
    """The layer that torch has, whose queries, keys and values are one product."""
    return nn.TransformerEncoderLayer(width, heads, wide, activation="gelu", batch_first=True)


def convolution(
    before: int, after: int, kernel: int = 1, stride: int = 1, groups: int = 1, bend: Make = nn.ReLU
) -> nn.Sequential:
    """Convolution, batch norm and activation."""
    window = (kernel, stride, kernel // 2)
    own = nn.Conv2d(before, after, *window, groups=groups, bias=False)
    return nn.Sequential(own, nn.BatchNorm2d(after), bend())


class Bottleneck(nn.Module):  # type: ignore[misc]
    """Block of ResNet-50."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(before, width),
            convolution(width, width, 3, stride),
            convolution(width, 4 * width, bend=nn.Identity),
        )
        fits = before == 4 * width and stride == 1
        self.skip = (
            nn.Identity() if fits else convolution(before, 4 * width, 1, stride, bend=nn.Identity)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Change an image."""
        return F.relu(self.body(x) + self.skip(x))


def resnet_50() -> nn.Module:
    """ResNet-50 with the layers of torch."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for group, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if group and block == 0 else 1
            layers.append(Bottleneck(before, 64 << group, stride))
            before = 256 << group
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))
    return nn.Sequential(*layers, *head)


class Excite(nn.Module):  # type: ignore[misc]
    """Squeeze-and-excite by a mean."""

    def __init__(self, width: int) -> None:
        super().__init__()
        few = max(8, int(width / 4 + 4) // 8 * 8)
        few = few if few >= 0.9 * width / 4 else few + 8
        self.first, self.second = nn.Conv2d(width, few, 1), nn.Conv2d(few, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scale the channels of an image."""
        mean = x.mean((2, 3), keepdim=True)
        return x * F.hardsigmoid(self.second(F.relu(self.first(mean))))


class Inverted(nn.Module):  # type: ignore[misc]
    """Inverted residual of MobileNet."""

    def __init__(
        self, before: int, wide: int, out: int, kernel: int, stride: int, excites: bool, bend: Make
    ) -> None:
        super().__init__()
        layers = [convolution(before, wide, bend=bend)] if wide != before else []
        layers.append(convolution(wide, wide, kernel, stride, wide, bend))
        layers += [Excite(wide)] if excites else []
        self.body = nn.Sequential(*layers, convolution(wide, out, bend=nn.Identity))
        self.adds = stride == 1 and before == out

    def forward(self, x: Tensor) -> Tensor:
        """Change an image."""
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 with the layers of torch."""
    layers, before = [convolution(3, 32, 3, 2, bend=nn.ReLU6)], 32
    for times, out, blocks, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            step = 1 if block else stride
            layers.append(Inverted(before, times * before, out, 3, step, False, nn.ReLU6))
            before = out
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))
    return nn.Sequential(*layers, convolution(before, 1280, bend=nn.ReLU6), *head)


_LARGE = (
    *((16, 16, 3, 1, False, 0), (64, 24, 3, 2, False, 0), (72, 24, 3, 1, False, 0)),
    *((72, 40, 5, 2, True, 0), (120, 40, 5, 1, True, 0), (120, 40, 5, 1, True, 0)),
    *((240, 80, 3, 2, False, 1), (200, 80, 3, 1, False, 1), (184, 80, 3, 1, False, 1)),
    *((184, 80, 3, 1, False, 1), (480, 112, 3, 1, True, 1), (672, 112, 3, 1, True, 1)),
    *((672, 160, 5, 2, True, 1), (960, 160, 5, 1, True, 1), (960, 160, 5, 1, True, 1)),
)
"""Rows of table 1 of the paper on MobileNetV3; the last column is 1 for hard swish."""


def mobilenet_v3_large() -> nn.Module:
    """MobileNetV3-Large with the layers of torch."""
    layers, before = [convolution(3, 16, 3, 2, bend=nn.Hardswish)], 16
    for wide, out, kernel, stride, excites, swish in _LARGE:
        bend = nn.Hardswish if swish else nn.ReLU
        layers.append(Inverted(before, wide, out, kernel, stride, excites, bend))
        before = out
    layers.append(convolution(before, 960, bend=nn.Hardswish))
    head = (nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1280, 1000))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


class PackedAttention(nn.Module):  # type: ignore[misc]
    """Attention whose queries, keys and values are parts of one product."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.packed, self.out, self.heads = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            heads,
        )

    def forward(self, x: Tensor) -> Tensor:
        """Rows mixed by attention, [batch, rows, width]."""
        batch, rows, width = x.shape
        parts = self.packed(x).reshape(batch, rows, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(batch, rows, width))


def wide_layers(width: int) -> nn.Sequential:
    """Two linear layers with GELU between them."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class VisionLayer(nn.Module):  # type: ignore[misc]
    """Layer of a vision transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.wide = PackedAttention(width, heads), wide_layers(width)

    def forward(self, x: Tensor) -> Tensor:
        """Patches behind one layer, [batch, patches, width]."""
        x = x + self.attention(self.first(x))
        return x + self.wide(self.second(x))


class Vision(nn.Module):  # type: ignore[misc]
    """Vision transformer of four layers, with a token for the class."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        self.layers = nn.Sequential(*(VisionLayer(width, 3) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        """Classify an image."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class ConvNextBlock(nn.Module):  # type: ignore[misc]
    """Block of ConvNeXt, whose linear layers are of channels that come last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.along = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.wide = nn.LayerNorm(width, eps=1e-6), wide_layers(width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        """Change an image."""
        made = self.scale * self.wide(self.norm(self.along(x).permute(0, 2, 3, 1)))
        return x + made.permute(0, 3, 1, 2)


class Windows(nn.Module):  # type: ignore[misc]
    """Layer of a Swin transformer: attention in shifted windows of 7x7."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.wide = PackedAttention(width, heads), wide_layers(width)
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        """Change an image whose channels come last."""
        batch, high, width, channels = x.shape
        shape = (batch, high // 7, 7, width // 7, 7, channels)
        y = torch.roll(self.first(x), (-self.shift, -self.shift), (1, 2))
        y = y.view(shape).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels)
        y = self.attention(y).view(batch, high // 7, width // 7, 7, 7, channels)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.wide(self.second(x))


class LastChannels(nn.Module):  # type: ignore[misc]
    """An image with its channels moved to the end."""

    def forward(self, x: Tensor) -> Tensor:
        """Move the channels."""
        return x.permute(0, 2, 3, 1)


class RootMeanSquare(nn.Module):  # type: ignore[misc]
    """RMS norm along the last axis, as decoders write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        """Rows divided by their root mean square, and scaled."""
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class DecoderLayer(nn.Module):  # type: ignore[misc]
    """Layer of a language model: rotated queries and keys, gated linear layers."""

    def __init__(self, width: int, heads: int, wide: int) -> None:
        super().__init__()
        linear = partial(nn.Linear, bias=False)
        self.query, self.key, self.value, self.out = (linear(width, width) for _ in range(4))
        self.first, self.second = RootMeanSquare(width), RootMeanSquare(width)
        self.gate, self.up, self.down = (
            linear(width, wide),
            linear(width, wide),
            linear(wide, width),
        )
        self.heads = heads

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rows behind one decoder layer, [batch, rows, width]."""
        y = self.first(x)
        query, key, value = (
            each(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        query, key = (each * cos + _turned(each) * sin for each in (query, key))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Decoder(nn.Module):  # type: ignore[misc]
    """Language model of two layers."""

    def __init__(self, width: int = 256, heads: int = 4, tokens: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, 688) for _ in range(2))
        self.norm, self.head = RootMeanSquare(width), nn.Linear(width, 1000, bias=False)
        half = torch.arange(0, width // heads, 2) / (width // heads)
        angles = torch.outer(torch.arange(tokens).float(), 1e4**-half).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token."""
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def _convnext() -> nn.Module:
    blocks = (ConvNextBlock(96), ConvNextBlock(96))
    return nn.Sequential(nn.Conv2d(3, 96, 4, 4), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _swin() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 96, 4, 4), LastChannels(), Windows(96, 3, 0), Windows(96, 3, 3)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorNetwork:
    """A network in PyTorch, and what builds it in ``tvm_ios.models``."""

    make: Make
    pixels: int = 224
    """Width and height of the image it takes."""
    tokens: int = 0
    """Number of tokens it takes in place of an image."""
    builder: str = ""
    """Name of the network in ``tvm_ios.models``; empty where it is not there."""
    built_with: Mapping[str, int] = field(default_factory=dict)
    """Options of the builder."""

    def module(self) -> nn.Module:
        """Module with random weights and statistics, for inference."""
        torch.manual_seed(0)
        module = self.make().eval()
        for name, weight in module.named_parameters():
            if "bias" in name:  # exporters leave out biases of zeros
                nn.init.normal_(weight, std=0.1)
        for each in module.modules():
            if isinstance(each, nn.BatchNorm2d):
                each.running_mean.normal_(0, 0.1)
                each.running_var.uniform_(0.5, 1.5)
        return module

    def example(self) -> Tensor:
        """Input of the module."""
        torch.manual_seed(1)
        if self.tokens:
            return torch.randint(0, 1000, (1, self.tokens))
        return torch.randn(1, 3, self.pixels, self.pixels)


_bert = partial(DoorNetwork, tokens=128, builder="bert_base", built_with={"layers": 2})
NETWORKS: Mapping[str, DoorNetwork] = MappingProxyType(
    {
        "bert, written": _bert(make=partial(Bert, WrittenLayer)),
        "bert, called": _bert(make=partial(Bert, CalledLayer)),
        "bert, torch's": _bert(make=partial(Bert, torchs_layer)),
        "resnet_50": DoorNetwork(make=resnet_50, builder="resnet_50"),
        "mobilenet_v2": DoorNetwork(make=mobilenet_v2, builder="mobilenet_v2"),
        "mobilenet_v3_large": DoorNetwork(make=mobilenet_v3_large, builder="mobilenet_v3_large"),
        "vision": DoorNetwork(make=Vision),
        "convnext": DoorNetwork(make=_convnext),
        "swin": DoorNetwork(make=_swin, pixels=112),
        "decoder": DoorNetwork(make=Decoder, tokens=64),
    }
)
"""Networks by the name of their row."""
