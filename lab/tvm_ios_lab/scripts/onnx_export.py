"""Models of torchvision and timm, and small ones of other kinds, written as ONNX files.

``PYTHON onnx_export.py FOLDER`` with an interpreter that has torch, torchvision, timm and
onnxscript writes each model twice: by torch's old exporter and by its new one. Weights are random.
What is there is not written again.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from torch import nn

OPSETS = {"old": 17, "new": 20}
"""Opset that each exporter of torch is asked for."""
TIMM = {
    "coat_tiny": 224,
    "convnext_atto": 64,
    "deit_tiny_patch16_224": 224,
    "densenet121": 64,
    "edgenext_xx_small": 256,
    "efficientnet_b0": 64,
    "ghostnet_100": 64,
    "hrnet_w18_small": 64,
    "levit_128s": 224,
    "maxvit_rmlp_pico_rw_256": 256,
    "mixer_s16_224": 224,
    "mobilenetv3_small_100": 64,
    "mobilevit_xs": 256,
    "poolformer_s12": 64,
    "regnetx_002": 64,
    "resnet18": 64,
    "swin_tiny_patch4_window7_224": 224,
    "vit_tiny_patch16_224": 224,
}
"""Width and height of the images, by model of timm."""
TORCHVISION = {"inception_v3": 128, "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64}


class Bert(nn.Module):  # type: ignore[misc]
    """Four layers of a text encoder, over tokens and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.places = nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
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

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """Encode a spectrum of 80 bands."""
        made = nn.functional.gelu(self.second(nn.functional.gelu(self.first(mel))))
        return self.norm(self.layers(made.transpose(1, 2) + self.places))


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two recurrent layers in both directions, and a linear one."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.layers = kind(32, 64, num_layers=2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(128, 10)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Ten numbers for each frame."""
        return self.last(self.layers(frames)[0])


def _tokens() -> tuple[torch.Tensor, ...]:
    return torch.arange(32)[None] * 7 % 1000, (torch.arange(32) < 24).long()[None]


def _models() -> dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]]:
    """Functions that make a model and its inputs, by the name of its files."""
    made: dict[str, Callable[[], Any]] = {}
    for name, extent in TIMM.items():
        made[name] = partial(_of_timm, name, extent)
    for name, extent in TORCHVISION.items():
        made[name] = partial(_of_torchvision, name, extent)
    segmentation, detection = torchvision.models.segmentation, torchvision.models.detection
    bare = {"weights": None, "weights_backbone": None}
    small = {"img_size": 64, "embed_dim": 192, "depth": 4, "num_heads": 3}
    made["beit_4_layers"] = lambda: (
        timm.create_model("beit_base_patch16_224", **small),
        _image(64),
    )
    made["lraspp_mobilenet_v3_large"] = lambda: (
        segmentation.lraspp_mobilenet_v3_large(**bare),
        _image(64),
    )
    made["deeplabv3_mobilenet_v3_large"] = lambda: (
        segmentation.deeplabv3_mobilenet_v3_large(**bare),
        _image(64),
    )
    made["ssdlite320_mobilenet_v3_large"] = lambda: (
        detection.ssdlite320_mobilenet_v3_large(**bare),
        _image(320),
    )
    made["bert_4_layers"] = lambda: (Bert(), _tokens())
    made["whisper_encoder"] = lambda: (Whisper(), (torch.randn(1, 80, 100),))
    made["lstm"] = lambda: (Recurrent(nn.LSTM), (torch.randn(1, 16, 32),))
    made["gru"] = lambda: (Recurrent(nn.GRU), (torch.randn(1, 16, 32),))
    return made


def _of_timm(name: str, extent: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    model = timm.create_model(name, exportable=True)
    for weights in model.parameters():
        if not weights.any():  # some heads begin with zeros, and every result would be zero
            nn.init.normal_(weights, std=0.02)
    return model, _image(extent)


def _of_torchvision(name: str, extent: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    # Its own initial weights take minutes.
    told = {"init_weights": False} if name == "inception_v3" else {}
    return torchvision.models.get_model(name, weights=None, **told), _image(extent)


def _image(extent: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, extent, extent),)


def main() -> None:
    """Write each model by both exporters, and say which fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="models (default: all)")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, make in _models().items():
        if asked.names and name not in asked.names:
            continue
        for exporter, opset in OPSETS.items():
            path = asked.folder / f"{name}.{exporter}.onnx"
            if path.exists():
                continue
            print(path.name, file=sys.stderr, flush=True)
            torch.manual_seed(0)
            model, inputs = make()
            try:
                _export(model.eval(), inputs, path, exporter, opset)
            except Exception as error:  # noqa: BLE001 - torch fails in whatever way it can
                path.unlink(missing_ok=True)
                reason = str(error).strip().splitlines() or [type(error).__name__]
                print(f"{path.name}: torch does not write it: {reason[0]}", file=sys.stderr)


def _export(
    model: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path, exporter: str, opset: int
) -> None:
    torch.onnx.export(
        model,
        inputs,
        str(path),
        opset_version=opset,
        dynamo=exporter == "new",
        external_data=False,
        **({} if exporter == "old" else {"verbose": False}),
    )


if __name__ == "__main__":
    main()
