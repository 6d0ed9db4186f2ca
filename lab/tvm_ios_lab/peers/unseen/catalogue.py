"""Catalogue of the unseen networks, and the rule that keeps half of them back; needs no torch.

The rule was fixed before any of the networks was built. Kernels are profiled and changed on
networks of the first half only. The other half is raced, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

__all__ = ["TOGETHER", "UNSEEN", "Exporter", "Half", "Library", "Unseen", "half_of"]


class Half(StrEnum):
    """Half of the catalogue."""

    SEEN = "seen while working"
    KEPT_BACK = "kept back"


class Library(StrEnum):
    """Library that a network is made with."""

    TIMM = "timm"
    TORCHVISION = "torchvision"
    PAGE = "a page of torch"
    """Module in :mod:`tvm_ios_lab.peers.unseen.pages`."""


class Exporter(StrEnum):
    """Exporter of ``torch.onnx.export`` that writes a network."""

    TORCHSCRIPT = "torchscript"
    """``dynamo=False``: the one that old files come from."""
    DYNAMO = "dynamo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Network of the catalogue; it has one input and one output, at batch 1."""

    name: str
    """Name that its library gives it."""
    library: Library
    exporter: Exporter
    shape: tuple[int, ...]
    """Shape of the input."""
    rows: int
    """Number of rows of a table that the input, int64, names; 0 where it is float32."""

    @property
    def half(self) -> Half:
        """Half that it belongs to."""
        return half_of(self.name)


def half_of(name: str) -> Half:
    """Half of a network: kept back where the SHA-256 of its name is an odd number.

    Examples
    --------
    >>> half_of("mobilevit_xs").value, half_of("mixnet_s").value
    ('seen while working', 'kept back')
    """
    odd = sha256(name.encode()).digest()[-1] % 2
    return Half.KEPT_BACK if odd else Half.SEEN


def _of(
    library: Library,
    exporter: Exporter,
    *names: str,
    shape: tuple[int, ...] = (1, 3, 224, 224),
    rows: int = 0,
) -> tuple[Unseen, ...]:
    return tuple(
        Unseen(name=name, library=library, exporter=exporter, shape=shape, rows=rows)
        for name in names
    )


UNSEEN = (
    *_of(
        Library.TIMM,
        Exporter.TORCHSCRIPT,
        *("mixnet_s", "convnext_atto", "vit_tiny_patch16_224", "dpn48b", "regnetx_008"),
        *("mobilenetv4_conv_small", "lcnet_100", "selecsls42b", "ghostnet_100", "levit_128s"),
        *("mixer_s32_224", "res2net50_26w_4s", "skresnet18"),
    ),
    *_of(
        Library.TIMM,
        Exporter.DYNAMO,
        *("fastvit_t8", "efficientnet_b0", "hrnet_w18_small", "ese_vovnet19b_dw", "dla34"),
        *("swin_tiny_patch4_window7_224", "convnext_atto_rms"),
    ),
    *_of(Library.TIMM, Exporter.TORCHSCRIPT, "mobilevit_xs", shape=(1, 3, 256, 256)),
    *_of(Library.TIMM, Exporter.TORCHSCRIPT, "inception_v4", shape=(1, 3, 299, 299)),
    *_of(Library.TORCHVISION, Exporter.TORCHSCRIPT, "shufflenet_v2_x1_0"),
    *_of(Library.TORCHVISION, Exporter.DYNAMO, "mnasnet1_0"),
    *_of(Library.TORCHVISION, Exporter.TORCHSCRIPT, "lraspp_mobilenet_v3_large"),
    *_of(Library.PAGE, Exporter.TORCHSCRIPT, "bert_4_layers", shape=(1, 128), rows=10_000),
    *_of(Library.PAGE, Exporter.DYNAMO, "llama_2_layers", shape=(1, 64, 512)),
    *_of(Library.PAGE, Exporter.DYNAMO, "t5_encoder", shape=(1, 64), rows=10_000),
    *_of(Library.PAGE, Exporter.TORCHSCRIPT, "dlrm", shape=(1, 26), rows=10_000),
    *_of(Library.PAGE, Exporter.DYNAMO, "wide_and_deep", shape=(1, 26), rows=10_000),
    *_of(Library.PAGE, Exporter.TORCHSCRIPT, "mixture_of_experts", shape=(1, 256)),
    *_of(Library.PAGE, Exporter.DYNAMO, "ensemble_of_cnns", shape=(1, 3, 64, 64)),
)
"""Networks of the catalogue."""

TOGETHER = (
    *(
        each
        for size, features in ((40, 64), (20, 128), (10, 256))
        for each in _of(
            Library.PAGE,
            Exporter.TORCHSCRIPT,
            *(f"head_{size}", f"light_head_{size}"),
            shape=(1, features, size, size),
        )
    ),
    *_of(Library.PAGE, Exporter.TORCHSCRIPT, "three_heads", shape=(1, 3, 320, 320)),
    *_of(Library.TORCHVISION, Exporter.TORCHSCRIPT, "ssdlite320", shape=(1, 3, 320, 320)),
    *_of(Library.TORCHVISION, Exporter.TORCHSCRIPT, "mobilenet_v2", "resnet18"),
    *_of(
        Library.PAGE,
        Exporter.TORCHSCRIPT,
        *("cnn_12", "cnn_16", "cnn_20", "cnn_24", "cnn_32"),
        shape=(1, 3, 64, 64),
    ),
)
"""Networks that run together with others; they belong to neither half."""
