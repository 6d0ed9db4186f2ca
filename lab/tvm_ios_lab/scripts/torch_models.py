"""Small models in plain torch, of kinds that no library of image networks has.

Text, speech, sound, images that are made, graphs: each has the layers of models that people have,
few of them, and random weights. They import torch alone, so that any interpreter with it has them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

__all__ = ["MODELS"]


class Bert(nn.Module):  # type: ignore[misc]
    """Four layers of a text encoder, over tokens and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.places = nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Encode tokens, of which there are none where the mask is zero."""
        places = torch.arange(tokens.shape[1], device=tokens.device)[None]
        return self.layers(self.words(tokens) + self.places(places), src_key_padding_mask=mask == 0)


class Whisper(nn.Module):  # type: ignore[misc]
    """The encoder of a speech model: two convolutions along time, and four layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, 128, 3, padding=1)
        self.second = nn.Conv1d(128, 128, 3, stride=2, padding=1)
        self.places = nn.Parameter(torch.randn(50, 128))
        layer = nn.TransformerEncoderLayer(
            128, 4, 512, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(128)

    def forward(self, mel: Tensor) -> Tensor:
        """Encode a spectrum of 80 bands."""
        made = F.gelu(self.second(F.gelu(self.first(mel))))
        return self.norm(self.layers(made.transpose(1, 2) + self.places))


class Conformer(nn.Module):  # type: ignore[misc]
    """Block of a speech encoder: attention, and a gated depthwise convolution along time."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            for _ in range(2)
        )
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.gate = nn.Conv1d(width, 2 * width, 1)
        self.along = nn.Conv1d(width, width, 15, padding=7, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.last = nn.Conv1d(width, width, 1)

    def forward(self, frames: Tensor) -> Tensor:
        """Encode frames of 64 numbers."""
        x = frames + 0.5 * self.wide[0](self.norms[0](frames))
        y = self.norms[1](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.gate(self.norms[2](x).transpose(1, 2)), dim=1)
        x = x + self.last(F.silu(self.batch_norm(self.along(y)))).transpose(1, 2)
        return self.norms[4](x + 0.5 * self.wide[1](self.norms[3](x)))


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two recurrent layers in both directions, and a linear one."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.layers = kind(32, 64, num_layers=2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(128, 10)

    def forward(self, frames: Tensor) -> Tensor:
        """Ten numbers for each frame."""
        return self.last(self.layers(frames)[0])


class Tagger(nn.Module):  # type: ignore[misc]
    """A recurrent layer over words, and the best path through its tags by Viterbi's algorithm."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, 24)
        self.layer = nn.LSTM(24, 16, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(32, 7)
        self.steps = nn.Parameter(torch.randn(7, 7))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The value of the best path, and its tags."""
        scores = self.tags(self.layer(self.words(tokens))[0])
        best, came = scores[:, 0], []
        for place in range(1, scores.shape[1]):
            values, places = (best[:, :, None] + self.steps).max(dim=1)
            best = values + scores[:, place]
            came.append(places)
        value, last = best.max(dim=1)
        path = [last]
        for places in reversed(came):
            path.append(places.gather(1, path[-1][:, None])[:, 0])
        return value, torch.stack(path[::-1], dim=1)


class Vocoder(nn.Module):  # type: ignore[misc]
    """Sound from a spectrum: transposed convolutions along time, and dilated ones."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for _ in range(3):
            self.ups.append(nn.ConvTranspose1d(width, width // 2, 8, stride=4, padding=2))
            width //= 2
            self.blocks.append(
                nn.ModuleList(
                    nn.Conv1d(width, width, 3, dilation=each, padding=each) for each in (1, 3, 5)
                )
            )
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """Sixty-four samples for each column of 80 bands."""
        x = self.first(mel)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            for along in block:
                x = x + along(F.leaky_relu(x, 0.1))
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions with group norms, between which the embedded time is added."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, width, 3, padding=1)
        )
        self.time = nn.Linear(64, width)
        self.second = nn.Sequential(
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.skip = nn.Conv2d(channels, width, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Change an image."""
        return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class Unet(nn.Module):  # type: ignore[misc]
    """Step of a diffusion model: down, attention, and up again, with the time embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, 32, 3, padding=1)
        self.down = Residual(32, 32)
        self.stride = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.middle = Residual(64, 64)
        self.norm = nn.GroupNorm(8, 64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.up = Residual(96, 32)
        self.leave = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        """The noise in an image at a time."""
        angles = time[:, None] * torch.exp(-0.3 * torch.arange(32, device=time.device))
        embedded = torch.cat([angles.sin(), angles.cos()], dim=1)
        before = self.down(self.enter(image), embedded)
        x = self.middle(self.stride(before), embedded)
        flat = self.norm(x).flatten(2).transpose(1, 2)
        made = self.attention(flat, flat, flat, need_weights=False)[0]
        x = x + made.transpose(1, 2).reshape(x.shape)
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.leave(self.up(torch.cat([x, before], dim=1), embedded))


class RootMeanSquare(nn.Module):  # type: ignore[misc]
    """Norm by the root of the mean square, written out, since torch's old exporter lacks it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Scale the last axis."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Decoder(nn.Module):  # type: ignore[misc]
    """Two layers of a language model, with rotated places and the keys and values of before."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(500, 64)
        self.norms = nn.ModuleList(RootMeanSquare(64) for _ in range(5))
        self.query = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(2))
        self.keys = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(2))
        self.gate = nn.ModuleList(nn.Linear(64, 320, bias=False) for _ in range(2))
        self.back = nn.ModuleList(nn.Linear(160, 64, bias=False) for _ in range(2))

    def forward(self, tokens: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the words that follow, and all keys and values; four heads share two."""
        known, length = past.shape[-2], tokens.shape[1]
        places = torch.arange(known, known + length)[:, None].float()
        angles = places * torch.exp(-0.5 * torch.arange(8))
        turn = angles.cos(), angles.sin()
        seen = torch.arange(known + length) < known + 1 + torch.arange(length)[:, None]
        x, kept = self.words(tokens), []
        for index in range(2):
            y = self.norms[2 * index](x)
            query = _turned(self.query[index](y).view(1, length, 4, 16).transpose(1, 2), turn)
            key, value = self.keys[index](y).view(1, length, 4, 16).transpose(1, 2).chunk(2, 1)
            key = torch.cat([past[index, 0], _turned(key, turn)], dim=2)
            value = torch.cat([past[index, 1], value], dim=2)
            kept.append(torch.stack([key, value]))
            key, value = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
            made = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
            x = x + self.out[index](made.transpose(1, 2).reshape(1, length, 64))
            gate, wide = self.gate[index](self.norms[2 * index + 1](x)).chunk(2, -1)
            x = x + self.back[index](F.silu(gate) * wide)
        return self.norms[4](x) @ self.words.weight.T, torch.stack(kept)


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Halves of the last axis, turned by angles."""
    (one, two), (cos, sin) = x.chunk(2, -1), turn
    return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)


class Larger(nn.Module):  # type: ignore[misc]
    """An image four times as large: its cubic resizing, and what convolutions add to it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 32, 5, padding=2), nn.PReLU(32)),
            *(nn.Conv2d(32, 128, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(32)),
            *(nn.Conv2d(32, 12, 3, padding=1), nn.PixelShuffle(2)),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Enlarge an image."""
        cubic = F.interpolate(image, scale_factor=4, mode="bicubic", align_corners=False)
        return cubic + self.layers(image)


class GraphLayers(nn.Module):  # type: ignore[misc]
    """Two rounds of messages along the edges of a graph: means over neighbours, and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.own = nn.Linear(16, 32), nn.Linear(16, 32)
        self.second, self.weight = nn.Linear(32, 8), nn.Linear(64, 1)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Eight numbers for each of a hundred nodes."""
        start, end = edges[0], edges[1]
        count = torch.zeros(100).scatter_add(0, end, torch.ones(end.shape[0]))
        sums = torch.zeros(100, 16).scatter_add(0, end[:, None].expand(-1, 16), nodes[start])
        x = F.elu(self.first(sums / count.clamp(min=1)[:, None]) + self.own(nodes))
        weight = F.leaky_relu(self.weight(torch.cat([x[start], x[end]], dim=1)), 0.2).exp()
        total = torch.full((100, 1), 1e-6).scatter_add(0, end[:, None], weight)
        said = self.second(x)[start] * weight / total.gather(0, end[:, None])
        return torch.zeros(100, 8).scatter_add(0, end[:, None].expand(-1, 8), said)


def _generator() -> nn.Module:
    """An image from a hundred numbers, by transposed convolutions."""
    widths, layers = (100, 64, 32, 16), []
    for place, (before, after) in enumerate(pairwise(widths)):
        how = (1, 0) if place == 0 else (2, 1)
        layers += [nn.ConvTranspose2d(before, after, 4, *how, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())


def _tokens(count: int) -> Tensor:
    return torch.arange(count)[None] * 7 % 97


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "bert_4_layers": lambda: (Bert(), (_tokens(32), (torch.arange(32) < 24).long()[None])),
    "conformer_block": lambda: (Conformer(), (torch.randn(1, 50, 64),)),
    "diffusion_unet": lambda: (Unet(), (torch.randn(1, 4, 16, 16), torch.rand(1))),
    "gan_generator": lambda: (_generator(), (torch.randn(1, 100, 1, 1),)),
    "graph_layers": lambda: (
        GraphLayers(),
        (torch.randn(100, 16), torch.randint(0, 100, (2, 300))),
    ),
    "gru": lambda: (Recurrent(nn.GRU), (torch.randn(1, 16, 32),)),
    "llm_decoder": lambda: (Decoder(), (_tokens(4), torch.randn(2, 2, 1, 2, 12, 16))),
    "lstm": lambda: (Recurrent(nn.LSTM), (torch.randn(1, 16, 32),)),
    "lstm_crf": lambda: (Tagger(), (_tokens(12),)),
    "super_resolution": lambda: (Larger(), (torch.randn(1, 3, 24, 24),)),
    "vocoder": lambda: (Vocoder(), (torch.randn(1, 80, 16),)),
    "whisper_encoder": lambda: (Whisper(), (torch.randn(1, 80, 100),)),
}
"""Functions that make a model and its inputs, by the name of its files."""
