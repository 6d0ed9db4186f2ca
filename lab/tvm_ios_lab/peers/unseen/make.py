"""Make the unseen networks: random weights from fixed seeds, an ONNX file, an input, its output.

It runs in the environment of the peers and downloads nothing. The folders are those that ``export``
writes, so ``ours`` and ``measure`` go on from them; the reference is PyTorch's output.

::

    FOLDER/bin/python -m tvm_ios_lab.peers.unseen.make [--networks NAME ...]
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tvm_ios.errors import TvmIosError
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Case, Network, relative_error, write_case
from tvm_ios_lab.peers.subject import Subject
from tvm_ios_lab.peers.unseen.catalogue import TOGETHER, UNSEEN, Exporter, Library, Unseen
from tvm_ios_lab.peers.unseen.detection import TOGETHER_PAGES
from tvm_ios_lab.peers.unseen.pages import PAGES

__all__ = ["main", "make_case", "make_module"]

EXPORTED = Path("out/unseen")
"""Folder of the networks unless another one is given."""
_OPSET = {Exporter.TORCHSCRIPT: 17, Exporter.DYNAMO: 18}
_CALIBRATION = (4, 2)
"""Batch size and number of the batches that statistics of batch norms are taken from."""
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_LEAST_SHARE = 0.01
"""Share of the output that another input has to change: ten times what is tolerated."""


def make_case(unseen: Unseen, folder: Path) -> Case:
    """Make a network and write it to a folder of its own in ``folder``."""
    module = make_module(unseen)
    folder /= Subject(unseen.name).stem
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(zlib.crc32(str(unseen.shape).encode()))  # networks of one shape read the same
    data, other = _data(unseen, 1), _data(unseen, 1)
    with torch.inference_mode():
        reference = module(data).numpy()
        share = relative_error(module(other).numpy(), reference)
    if not _LEAST_SHARE <= share < np.inf:
        raise PeerError(f"{unseen.name}: another input changes {share:.2g} of the output")
    _export(module, data, unseen.exporter, folder / "network.onnx")
    network = Network(
        name=unseen.name,
        batch_size=1,
        input="input",
        input_shape=unseen.shape,
        input_dtype="int64" if unseen.rows else "float32",
        output="output",
        macs=_macs(module, data),
    )
    case = Case(network=network, weights={}, input=data.numpy(), reference=reference)
    write_case(case, folder)
    return case


def make_module(unseen: Unseen) -> nn.Module:
    """A network in inference mode, with random weights that let the signal through."""
    torch.manual_seed(zlib.crc32(unseen.name.encode()))
    module = _built(unseen)
    _randomise(module)
    _settle_norms(module, unseen)
    if unseen.library is Library.TIMM:
        from timm.utils.model import reparameterize_model  # noqa: PLC0415

        module = reparameterize_model(module)
    return _OneOutput(module).eval()


class _OneOutput(nn.Module):
    """Module whose output is a tensor: segmentation networks of torchvision return a dictionary."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        output = self.module(x)
        return output["out"] if isinstance(output, dict) else output


def main(arguments: Sequence[str] | None = None) -> int:
    """Program that makes networks; 0 when all are done. One that fails does not stop the others."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.unseen.make",
        description="Make networks that nobody has tuned for, for ours and measure.",
    )
    known = {unseen.name: unseen for unseen in (*UNSEEN, *TOGETHER)}
    names = [unseen.name for unseen in UNSEEN]
    parser.add_argument("--networks", nargs="+", choices=known, default=names, metavar="NAME")
    parser.add_argument("--folder", type=Path, default=EXPORTED, help="has one folder a network")
    options = parser.parse_args(arguments)
    failed = False
    for name in options.networks:
        try:
            network = make_case(known[name], options.folder).network
        except (ImportError, RuntimeError, ValueError, TvmIosError) as error:
            print(f"error: {name}: {error}", file=sys.stderr, flush=True)
            failed = True
            continue
        print(f"{name} ({known[name].half.value}): {network.macs / 1e9:.3f} GMAC", flush=True)
    return int(failed)


def _built(unseen: Unseen) -> nn.Module:
    if unseen.library is not Library.PAGE:
        _declare_missing_operators()
    pages: Mapping[str, Callable[[], nn.Module]] = {**PAGES, **TOGETHER_PAGES}
    if unseen.name in pages:
        return pages[unseen.name]()
    if unseen.library is Library.TIMM:
        import timm  # noqa: PLC0415

        return timm.create_model(unseen.name, pretrained=False)
    from torchvision.models import get_model  # noqa: PLC0415

    options = {"weights_backbone": None} if unseen.name.startswith("lraspp") else {}
    return get_model(unseen.name, weights=None, **options)


def _declare_missing_operators() -> None:
    """Let torchvision, which timm needs, be imported where its wheel was built for CUDA.

    Its operators are missing then, and it refuses to describe them; no network here calls one.
    """
    try:
        import torchvision  # noqa: F401, PLC0415
    except RuntimeError:
        for name in ("nms", "qnms"):
            signature = "(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)


def _randomise(module: nn.Module) -> None:
    """Give parameters that start as constants, such as scales of residuals, random numbers.

    Where there are batch norms, biases are positive, for rectifiers then let most of the signal
    through. A deep network with half of them closed makes a thousand times as much of every
    rounding error.
    """
    positive = any(isinstance(each, _BATCH_NORMS) for each in module.modules())
    with torch.no_grad():
        for parameter in module.parameters():
            first = parameter.flatten()[0].item()
            if not bool((parameter == first).all()):
                continue
            if first != 0:
                parameter.uniform_(0.5, 1.5)
            elif positive:
                parameter.uniform_(0, 1)
            else:
                parameter.normal_(0, 0.1)


def _settle_norms(module: nn.Module, unseen: Unseen) -> None:
    """Take the statistics of batch norms from random batches, so that activations stay finite."""
    module.eval()
    for each in module.modules():
        if isinstance(each, _BATCH_NORMS):
            each.momentum = None  # the mean of all batches
            each.train()
    size, count = _CALIBRATION
    with torch.no_grad():
        for _ in range(count):
            module(_data(unseen, size))
    module.eval()


def _data(unseen: Unseen, batch_size: int) -> Tensor:
    shape = (batch_size, *unseen.shape[1:])
    return torch.randint(unseen.rows, shape) if unseen.rows else torch.randn(shape)


def _export(module: nn.Module, data: Tensor, exporter: Exporter, path: Path) -> None:
    torch.onnx.export(
        module,
        (data,),
        path,
        input_names=["input"],
        output_names=["output"],
        opset_version=_OPSET[exporter],
        dynamo=exporter is Exporter.DYNAMO,
        external_data=False,
        verbose=False,
    )


def _macs(module: nn.Module, data: Tensor) -> int:
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        module(data)
    return counter.get_total_flops() // 2


if __name__ == "__main__":
    sys.exit(main())
