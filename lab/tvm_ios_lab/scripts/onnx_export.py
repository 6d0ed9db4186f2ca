"""Models of torchvision and timm, and those of ``torch_models.py``, written as ONNX files.

``PYTHON -m tvm_ios_lab.scripts.onnx_export FOLDER`` with an interpreter that has torch,
torchvision, timm and onnxscript writes each model twice: by torch's old exporter and by its new
one. Weights are random. What is there is not written again. ``PYTHONPATH`` has the folder ``lab``.
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

from tvm_ios_lab.scripts.torch_models import MODELS

OPSETS = {"old": 17, "new": 20}
"""Opset that each exporter of torch is asked for."""
TIMM = {
    "cait_xxs24_224": 224,
    "coat_tiny": 224,
    "convmixer_768_32": 64,
    "convnext_atto": 64,
    "crossvit_9_240": 240,
    "deit_tiny_patch16_224": 224,
    "densenet121": 64,
    "eca_nfnet_l0": 64,
    "edgenext_xx_small": 256,
    "efficientformerv2_s0": 224,
    "efficientnet_b0": 64,
    "eva02_tiny_patch14_224": 224,
    "fastvit_t8": 64,
    "gcvit_xxtiny": 224,
    "ghostnet_100": 64,
    "ghostnetv2_100": 64,
    "halonet26t": 256,
    "hrnet_w18_small": 64,
    "lambda_resnet26t": 256,
    "levit_128s": 224,
    "mambaout_femto": 64,
    "maxvit_rmlp_pico_rw_256": 256,
    "mixer_s16_224": 224,
    "mobilenetv2_100": 64,
    "mobilenetv3_small_100": 64,
    "mobileone_s0": 64,
    "mobilevit_xs": 256,
    "pit_ti_224": 224,
    "poolformer_s12": 64,
    "regnetx_002": 64,
    "repvgg_a0": 64,
    "resnest14d": 64,
    "resnet18": 64,
    "sequencer2d_s": 224,
    "swin_tiny_patch4_window7_224": 224,
    "swinv2_cr_tiny_ns_224": 224,
    "tresnet_m": 64,
    "vit_tiny_patch16_224": 224,
    "volo_d1_224": 224,
    "xcit_nano_12_p16_224": 224,
}
"""Width and height of the images, by model of timm."""
DETECTION = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": 160,
    "retinanet_resnet50_fpn": 128,
    "ssdlite320_mobilenet_v3_large": 320,
}
"""Width and height of the images, by detection network of torchvision."""
TORCHVISION = {"inception_v3": 128, "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64}


def _models() -> dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]]:
    """Functions that make a model and its inputs, by the name of its files."""
    made: dict[str, Callable[[], Any]] = {}
    for name, extent in TIMM.items():
        made[name] = partial(_of_timm, name, extent)
    for name, extent in TORCHVISION.items():
        made[name] = partial(_of_torchvision, name, extent)
    for name, extent in DETECTION.items():
        made[name] = partial(_of_detection, name, extent)
    segmentation = torchvision.models.segmentation
    bare = {"weights": None, "weights_backbone": None}
    for kind in ("beit", "vit"):
        made[f"{kind}_4_layers"] = partial(_of_four_layers, f"{kind}_base_patch16_224")
    made["lraspp_mobilenet_v3_large"] = lambda: (
        segmentation.lraspp_mobilenet_v3_large(**bare),
        _image(64),
    )
    made["deeplabv3_mobilenet_v3_large"] = lambda: (
        segmentation.deeplabv3_mobilenet_v3_large(**bare),
        _image(64),
    )
    made["r3d_18"] = lambda: (torchvision.models.video.r3d_18(), (torch.randn(1, 3, 4, 32, 32),))
    made["s3d"] = lambda: (torchvision.models.video.s3d(), (torch.randn(1, 3, 16, 224, 224),))
    return made | MODELS


def _of_timm(name: str, extent: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    model = timm.create_model(name, exportable=True)
    for weights in model.parameters():
        if not weights.any():  # some heads begin with zeros, and every result would be zero
            nn.init.normal_(weights, std=0.02)
    return model, _image(extent)


def _of_four_layers(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    small = {"img_size": 64, "embed_dim": 192, "depth": 4, "num_heads": 3}
    return timm.create_model(name, **small), _image(64)


def _of_torchvision(name: str, extent: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    # Its own initial weights take minutes.
    told = {"init_weights": False} if name == "inception_v3" else {}
    return torchvision.models.get_model(name, weights=None, **told), _image(extent)


def _of_detection(name: str, extent: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A network whose features are as large as those of a trained one, so that scores differ."""
    sizes = {} if name.startswith("ssd") else {"min_size": extent, "max_size": extent}
    make = getattr(torchvision.models.detection, name)
    model, image = make(weights=None, weights_backbone=None, **sizes), _image(extent)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    model.train()
    images = model.transform(list(torch.randn(2, 3, extent, extent)))[0].tensors
    features = list(model.backbone(images).values())
    if hasattr(model, "head"):
        model.head(features)
    return model, image


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
