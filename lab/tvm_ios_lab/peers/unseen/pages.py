"""Networks that fit a page of torch each: transformers, recommenders, an ensemble."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["ENSEMBLE", "PAGES", "small_cnn"]

ENSEMBLE = (12, 16, 20, 24, 32)
"""Channels of the first layer of each network of the ensemble."""

_ROWS = 10_000
"""Rows of every embedding."""


class _Attention(nn.Module):
    """Attention of a sequence to itself, with rotated queries and keys where ``rotary``."""

    def __init__(self, features: int, heads: int, *, bias: bool, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.query = nn.Linear(features, features, bias=bias)
        self.key = nn.Linear(features, features, bias=bias)
        self.value = nn.Linear(features, features, bias=bias)
        self.output = nn.Linear(features, features, bias=bias)

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        query, key, value = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        if self.rotary:
            query, key = _rotated(query), _rotated(key)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = functional.softmax(scores if added is None else scores + added, dim=-1)
        return self.output((weights @ value).transpose(1, 2).flatten(2))


def _rotated(x: Tensor) -> Tensor:
    """Heads whose features are rotated by the place of their token."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] / 10_000 ** (torch.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class _RmsNorm(nn.Module):
    """Norm by the root of the mean square, as language models write it out."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class _Gated(nn.Module):
    """Two layers whose hidden features are gated by an activation of others."""

    def __init__(self, features: int, hidden: int, activation: nn.Module) -> None:
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False)
        self.up = nn.Linear(features, hidden, bias=False)
        self.down = nn.Linear(hidden, features, bias=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class _BertLayer(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.attention = _Attention(features, heads, bias=True)
        self.first, self.second = nn.LayerNorm(features), nn.LayerNorm(features)
        self.mlp = nn.Sequential(
            nn.Linear(features, 4 * features), nn.GELU(), nn.Linear(4 * features, features)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x + self.attention(x))
        return self.second(x + self.mlp(x))


class _Bert(nn.Module):
    """BERT of four layers of 312 features, after TinyBERT; reads numbers of tokens."""

    def __init__(self, features: int = 312) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(_ROWS, features), nn.Embedding(512, features)
        self.norm = nn.LayerNorm(features)
        self.layers = nn.Sequential(*(_BertLayer(features, 12) for _ in range(4)))
        self.pooler = nn.Linear(features, features)

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.places(torch.arange(tokens.shape[1]))
        x = self.layers(self.norm(self.words(tokens) + places))
        return self.pooler(x[:, 0]).tanh()


class _LlamaLayer(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.attention = _Attention(features, heads, bias=False, rotary=True)
        self.mlp = _Gated(features, 1376, nn.SiLU())
        self.first, self.second = _RmsNorm(features), _RmsNorm(features)

    def forward(self, x: Tensor) -> Tensor:
        future = torch.full((x.shape[1], x.shape[1]), -1e9).triu(1)
        x = x + self.attention(self.first(x), future)
        return x + self.mlp(self.second(x))


class _Llama(nn.Module):
    """Two layers of a Llama-like decoder on embedded tokens, none of which sees later ones."""

    def __init__(self, features: int = 512) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(_LlamaLayer(features, 8) for _ in range(2)))
        self.norm = _RmsNorm(features)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.layers(x))


class _T5Layer(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.attention = _Attention(features, heads, bias=False)
        self.mlp = _Gated(features, 1024, nn.GELU(approximate="tanh"))
        self.first, self.second = _RmsNorm(features), _RmsNorm(features)

    def forward(self, x: Tensor, distances: Tensor) -> Tensor:
        x = x + self.attention(self.first(x), distances)
        return x + self.mlp(self.second(x))


class _T5Encoder(nn.Module):
    """Encoder of four layers after T5, with a learned bias for distances of tokens."""

    def __init__(self, features: int = 384, heads: int = 6, tokens: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(_ROWS, features)
        self.distances = nn.Embedding(2 * tokens, heads)
        self.layers = nn.ModuleList(_T5Layer(features, heads) for _ in range(4))
        self.norm = _RmsNorm(features)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        apart = places[None, :] - places[:, None] + tokens.shape[1]
        distances = self.distances(apart).permute(2, 0, 1)[None]
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, distances)
        return self.norm(x)


def _mlp(*features: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for pair in pairwise(features):
        layers += [nn.Linear(*pair), nn.ReLU()]
        # torch's own numbers shrink the signal until only biases are left.
        nn.init.kaiming_normal_(layers[-2].weight)
    return nn.Sequential(*layers)


class _Dlrm(nn.Module):
    """DLRM: embedded categories, 13 of them bucketed numbers, and products of every two."""

    def __init__(self, categories: int = 26, features: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(_ROWS, features) for _ in range(categories))
        self.bottom = _mlp(13 * features, 512, 256, features)
        rows, columns = torch.tril_indices(categories + 1, categories + 1, -1)
        self.register_buffer("pairs", rows * (categories + 1) + columns)
        self.top = nn.Sequential(_mlp(features + len(rows), 512, 256), nn.Linear(256, 1))

    def forward(self, numbers: Tensor) -> Tensor:
        embedded = torch.stack([table(numbers[:, i]) for i, table in enumerate(self.tables)], dim=1)
        dense = self.bottom(embedded[:, :13].flatten(1))
        every = torch.cat([dense[:, None], embedded], dim=1)
        products = (every @ every.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([dense, products], dim=1)).sigmoid()


class _WideAndDeep(nn.Module):
    """Wide & Deep: a weight for each category beside a perceptron with batch norms."""

    def __init__(self, categories: int = 26, features: int = 16) -> None:
        super().__init__()
        self.wide = nn.ModuleList(nn.Embedding(_ROWS, 1) for _ in range(categories))
        self.deep = nn.ModuleList(nn.Embedding(_ROWS, features) for _ in range(categories))
        self.norm = nn.BatchNorm1d(categories * features)
        self.mlp = nn.Sequential(_mlp(categories * features, 1024, 512, 256), nn.Linear(256, 1))

    def forward(self, numbers: Tensor) -> Tensor:
        wide, deep = (
            torch.cat([table(numbers[:, i]) for i, table in enumerate(tables)], dim=1)
            for tables in (self.wide, self.deep)
        )
        return (wide.sum(1, keepdim=True) + self.mlp(self.norm(deep))).sigmoid()


class _MixtureOfExperts(nn.Module):
    """Eight experts and two tasks, each with a gate of its own (MMoE)."""

    def __init__(self, features: int = 256, experts: int = 8) -> None:
        super().__init__()
        self.experts = nn.ModuleList(_mlp(features, 512, 128) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(features, experts) for _ in range(2))
        self.towers = nn.ModuleList(nn.Sequential(_mlp(128, 64), nn.Linear(64, 1)) for _ in "ab")

    def forward(self, x: Tensor) -> Tensor:
        experts = torch.stack([expert(x) for expert in self.experts], dim=1)
        tasks = []
        for gate, tower in zip(self.gates, self.towers, strict=True):
            shares = gate(x).softmax(dim=-1)
            tasks.append(tower((shares[..., None] * experts).sum(1)))
        return torch.cat(tasks, dim=1).sigmoid()


def small_cnn(width: int) -> nn.Sequential:
    """Network of three convolutions that tells ten classes apart, of small images."""
    layers: list[nn.Module] = []
    before = 3
    for channels in (width, 2 * width, 4 * width):
        layers += [
            nn.Conv2d(before, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


class _Ensemble(nn.Module):
    """Mean of the probabilities that five small networks of different widths see."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(small_cnn(width) for width in ENSEMBLE)

    def forward(self, x: Tensor) -> Tensor:
        every = torch.stack([member(x).softmax(dim=-1) for member in self.members])
        return every.mean(0)


PAGES: dict[str, type[nn.Module]] = {
    "bert_4_layers": _Bert,
    "llama_2_layers": _Llama,
    "t5_encoder": _T5Encoder,
    "dlrm": _Dlrm,
    "wide_and_deep": _WideAndDeep,
    "mixture_of_experts": _MixtureOfExperts,
    "ensemble_of_cnns": _Ensemble,
}
"""Networks by the name that the catalogue gives them."""
