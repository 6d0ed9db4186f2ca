"""A network as plain data: what crosses from TVM's environment to the one of the peers.

A folder holds one network: its nodes (``network.json``), weights (``weights.npz``), one fixed
input (``input.npy``) and what TVM computes from it (``reference.npy``). Where it is an ONNX file of
somebody else's (``network.onnx``), there are neither nodes nor weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_ios_lab.peers.errors import PeerError

__all__ = [
    "NETWORKS",
    "TOLERANCE",
    "Case",
    "Network",
    "Node",
    "Operator",
    "read_case",
    "relative_error",
    "shared_inputs",
    "write_case",
]

NETWORKS = (
    "randwire_small",
    "nasnet_small",
    "nasnet_small_c44",
    "mobilenet_v3_large",
    "mobilenet_v2",
    "squeezenet",
    "dcgan",
    "googlenet",
    "densenet_121",
    "resnet_50",
    "inception_v3",
    "randwire",
    "bert_base",
    "nasnet_large",
    "unet",
    "resnet3d_18",
)
"""Networks of tvm_ios.models, the fast ones first."""
TOLERANCE = 1e-3
"""Largest :func:`relative_error` of an output that still counts as the same network."""

Floats = NDArray[np.float32]

_EXPORT = "export it again: python -m tvm_ios_lab.peers.export"


class Operator(StrEnum):
    """Kind of a node; tensors are float32, images NCHW, volumes NCDHW."""

    CONVOLUTION = "convolution"
    """Convolution with bias; of volumes where the kernel has three extents."""
    TRANSPOSED_CONVOLUTION = "transposed_convolution"
    """Transposed convolution with bias; the weight is (inputs, outputs, height, width)."""
    DENSE = "dense"
    """Product of each row with the weight, (out features, in features), and bias."""
    SCALE_SHIFT = "scale_shift"
    """Sum of each channel times its weight and its bias; both are (channels, 1, 1), of volumes
    (channels, 1, 1, 1)."""
    LAYER_NORM = "layer_norm"
    """Along the last axis, with weight and bias."""
    EMBEDDING = "embedding"
    """Rows of the weight whose numbers are read."""
    ATTENTION = "attention"
    """Attention of query, key and value, (sequences * tokens, features) each, the heads side by
    side; scores are divided by the root of a head's features."""
    RELU = "relu"
    RELU6 = "relu6"
    HARD_SIGMOID = "hard_sigmoid"
    """``relu6(x + 3) / 6``."""
    HARD_SWISH = "hard_swish"
    """``x * relu6(x + 3) / 6``."""
    TANH = "tanh"
    SOFTMAX = "softmax"
    """Softmax of each row."""
    GELU = "gelu"
    """Exact, with the error function."""
    ADD = "add"
    """Shapes are broadcast."""
    MULTIPLY = "multiply"
    """Shapes are broadcast."""
    CONCATENATE = "concatenate"
    """Along the channels."""
    RESHAPE = "reshape"
    FLATTEN = "flatten"
    """Matrix of all but the first axis, flattened."""
    MAX_POOL = "max_pool"
    AVERAGE_POOL = "average_pool"
    """Counts the padding."""
    GLOBAL_AVERAGE_POOL = "global_average_pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Operator of a network; its window is 1x1, unpadded, where it has none."""

    operator: Operator
    output: str
    """Name of the tensor it makes; every tensor is made once."""
    inputs: tuple[str, ...]
    """Tensors it reads."""
    shape: tuple[int, ...]
    """Shape of the output."""
    weight: str = ""
    """Name of the weight, (out channels, in channels / groups, height, width); or empty. That of
    volumes has a depth in front of the height, and so have the window's extents."""
    bias: str = ""
    kernel: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    """Rows above and below, columns left and right."""
    round_up: bool = False
    """Whether the size of a pooling rounds up: the last window may be cut off at the edge."""
    groups: int = 1
    channels_read: int = 0
    """Input channels that make one output channel; 0 where this is no convolution or product."""
    tokens: int = 0
    """Tokens of each sequence, for attention."""
    heads: int = 0
    """Heads of attention."""
    epsilon: float = 0.0
    """Added to the variance."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of convolutions and products of matrices; 0 for all others."""
        size = math.prod(self.shape)
        match self.operator:
            case Operator.ATTENTION:
                return 2 * self.tokens * size
            case Operator.TRANSPOSED_CONVOLUTION:
                window = math.prod(self.kernel) * self.channels_read
                return size * window // math.prod(self.strides)
            case _:
                return size * math.prod(self.kernel) * self.channels_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network of ours, node by node, or an ONNX file that somebody else made."""

    name: str
    batch_size: int
    input: str
    input_shape: tuple[int, ...]
    output: str
    """Name of the tensor the network makes."""
    macs: int
    """Multiply-accumulates of convolutions and products of matrices, and nothing else."""
    nodes: tuple[Node, ...] = ()
    """Nodes in an order in which they can run; the last one makes the output. None where the file
    is all there is."""
    input_dtype: str = "float32"
    quantised: bool = False
    """Whether the file computes in whole numbers, so that outputs differ from the reference."""

    @property
    def is_described(self) -> bool:
        """Whether nodes say what is computed, so that others can be made of them."""
        return bool(self.nodes)

    @property
    def reads_tokens(self) -> bool:
        """Whether the input is numbers of tokens, and no image."""
        return not self.input_dtype.startswith("float")

    def to_json(self) -> str:
        """JSON that :meth:`from_json` reads back."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Network:
        """Read what :meth:`to_json` wrote."""
        try:
            data = json.loads(text)
            return cls(
                name=data["name"],
                batch_size=data["batch_size"],
                input=data["input"],
                input_shape=tuple(data["input_shape"]),
                input_dtype=data["input_dtype"],
                output=data["output"],
                macs=data["macs"],
                quantised=data.get("quantised", False),
                nodes=tuple(_node(record) for record in data["nodes"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PeerError(
                f"not the description of a network: {type(error).__name__}: {error}; {_EXPORT}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A network, its weights, one input, and TVM's output for it."""

    network: Network
    weights: Mapping[str, Floats]
    input: NDArray[Any]
    reference: Floats


def write_case(case: Case, folder: Path) -> None:
    """Write a network to its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    contents: dict[str, Any] = dict(case.weights)
    np.savez(folder / "weights.npz", **contents)
    np.save(folder / "input.npy", case.input)
    np.save(folder / "reference.npy", case.reference)
    (folder / "network.json").write_text(case.network.to_json() + "\n")


def read_case(folder: Path) -> Case:
    """Read a network's folder."""
    try:
        with np.load(folder / "weights.npz") as archive:
            weights = {name: archive[name] for name in archive.files}
        return Case(
            network=Network.from_json((folder / "network.json").read_text()),
            weights=weights,
            input=np.load(folder / "input.npy"),
            reference=np.load(folder / "reference.npy"),
        )
    except (OSError, ValueError) as error:
        raise PeerError(f"{folder} holds no exported network: {error}; {_EXPORT}") from error


def relative_error(output: Floats, reference: Floats) -> float:
    """Largest absolute difference over the reference's largest value; infinite if shapes differ.

    Something that is no number differs infinitely from every number.
    """
    if output.shape != reference.shape:
        return math.inf
    error = float(np.max(np.abs(output - reference)) / np.max(np.abs(reference)))
    return math.inf if math.isnan(error) else error


def shared_inputs(cases: Sequence[Case]) -> tuple[str, ...]:
    """Name of the input of several networks where all read the same; else none."""
    first, *others = cases
    same = all(
        case.network.input == first.network.input and np.array_equal(case.input, first.input)
        for case in others
    )
    return (first.network.input,) if others and same else ()


def _node(record: dict[str, Any]) -> Node:
    pairs = {name: tuple(record[name]) for name in ("inputs", "shape", "kernel", "strides")}
    return Node(
        **{
            **record,
            **pairs,
            "padding": tuple(record["padding"]),
            "operator": Operator(record["operator"]),
        }
    )
