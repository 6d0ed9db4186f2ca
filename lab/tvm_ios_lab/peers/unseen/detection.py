"""Networks for sets that run together: heads of detectors, a detector, members of an ensemble."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from tvm_ios_lab.peers.unseen.pages import ENSEMBLE, small_cnn

__all__ = ["TOGETHER_PAGES"]

_CLASSES, _BOX = 80, 64


def _convolution(before: int, channels: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(before, channels, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU())


def _separable(before: int, channels: int) -> nn.Sequential:
    depthwise = nn.Conv2d(before, before, 3, padding=1, groups=before, bias=False)
    norm = nn.Sequential(nn.BatchNorm2d(before), nn.ReLU())
    return nn.Sequential(depthwise, norm, _convolution(before, channels, 1))


class _Head(nn.Module):
    """Head of one scale: a branch for boxes and one for classes, as YOLO's later versions have."""

    def __init__(self, features: int, make: Callable[..., nn.Module] = _convolution) -> None:
        super().__init__()
        self.boxes, self.classes = (
            nn.Sequential(make(features, width), make(width, width), nn.Conv2d(width, width, 1))
            for width in (_BOX, _CLASSES)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.boxes(x), self.classes(x)], dim=1).flatten(2)


class _ThreeHeads(nn.Module):
    """Small backbone whose maps of three scales have a head each; all in one network."""

    def __init__(self) -> None:
        super().__init__()
        stem = (_convolution(3, 16, 3, 2), _convolution(16, 32, 3, 2), _convolution(32, 64, 3, 2))
        self.first = nn.Sequential(*stem, _separable(64, 64))
        self.second = nn.Sequential(_convolution(64, 128, 3, 2), _separable(128, 128))
        self.third = nn.Sequential(_convolution(128, 256, 3, 2), _separable(256, 256))
        self.heads = nn.ModuleList(map(_Head, (64, 128, 256)))

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        second = self.second(first)
        maps = (first, second, self.third(second))
        return torch.cat([head(each) for head, each in zip(self.heads, maps, strict=True)], dim=2)


class _Ssdlite(nn.Module):
    """SSDlite320 of torchvision up to what boxes are made of: six maps, two heads for each."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models.detection import ssdlite320_mobilenet_v3_large  # noqa: PLC0415

        whole = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, x: Tensor) -> Tensor:
        found = self.head(list(self.backbone(x).values()))
        return torch.cat([found["bbox_regression"], found["cls_logits"]], dim=2)


TOGETHER_PAGES: dict[str, Callable[[], nn.Module]] = {
    **{
        f"{name}_{320 // stride}": partial(_Head, 8 * stride, make)
        for name, make in (("head", _convolution), ("light_head", _separable))
        for stride in (8, 16, 32)
    },
    "three_heads": _ThreeHeads,
    "ssdlite320": _Ssdlite,
    **{f"cnn_{width}": partial(small_cnn, width) for width in ENSEMBLE},
}
"""Networks by the name that the catalogue gives them."""
