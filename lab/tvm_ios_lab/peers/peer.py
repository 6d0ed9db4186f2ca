"""Peers as the measurement sees them: something that runs one network, prepared beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Protocol

from tvm_ios.core.low_precision import BFLOAT16, FLOAT32
from tvm_ios_lab.peers.build import Build
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Case, Floats

__all__ = ["Contestant", "Peer", "Runner", "contestants", "need_onnx_file", "prepare"]


class Peer(Enum):
    """A framework in one of its modes."""

    ONNXRUNTIME = "onnxruntime"
    """Operators one after the other, each on all threads."""
    ONNXRUNTIME_PARALLEL = "onnxruntime parallel"
    """``ORT_PARALLEL``: as many operators at a time as there are threads, each on one thread."""
    ONNXRUNTIME_PARALLEL_WIDE = "onnxruntime parallel wide"
    """``ORT_PARALLEL`` with as many threads again inside operators."""
    OPENVINO = "openvino"
    """Latency hint, float32."""
    OPENVINO_DEFAULT = "openvino-default"
    """Latency hint only: it computes in bfloat16 where the processor can."""
    TORCH = "torch"
    """Eager, inference mode."""
    TORCH_CHANNELS_LAST = "torch channels last"
    """PyTorch on NHWC tensors, for which oneDNN has its fastest convolutions."""
    TORCH_COMPILE = "torch compile"
    """``torch.compile`` with frozen weights."""
    OURS = "tvm-ios"
    """Build of ours that ``ours`` has exported."""

    @property
    def precision(self) -> str:
        """Lowest precision that it may compute in; builds of ours say theirs themselves."""
        return BFLOAT16 if self is Peer.OPENVINO_DEFAULT else FLOAT32


_PARALLEL = frozenset({Peer.ONNXRUNTIME_PARALLEL, Peer.ONNXRUNTIME_PARALLEL_WIDE})
_READS_ONNX = frozenset(
    {
        Peer.ONNXRUNTIME,
        Peer.ONNXRUNTIME_PARALLEL,
        Peer.ONNXRUNTIME_PARALLEL_WIDE,
        Peer.OPENVINO,
        Peer.OPENVINO_DEFAULT,
    }
)
_ON_IMAGES = frozenset({Peer.TORCH_CHANNELS_LAST})
"""Peers that differ from others on images only."""
_HOMES = {
    Peer.ONNXRUNTIME: "onnxruntime_peer",
    Peer.ONNXRUNTIME_PARALLEL: "onnxruntime_peer",
    Peer.ONNXRUNTIME_PARALLEL_WIDE: "onnxruntime_peer",
    Peer.OPENVINO: "openvino_peer",
    Peer.OPENVINO_DEFAULT: "openvino_peer",
    Peer.TORCH: "torch_peer",
    Peer.TORCH_CHANNELS_LAST: "torch_peer",
    Peer.TORCH_COMPILE: "torch_peer",
    Peer.OURS: "our_peer",
}


_REMEDY = {
    False: "run `lab/tvm_ios_lab/peers/setup.sh FOLDER` and use FOLDER/bin/python",
    True: "run `make setup` and give --ours-python .venv/bin/python",
}
"""Next step where a module is missing, by whether it is one of ours."""


def need_onnx_file(peers: Iterable[Peer]) -> bool:
    """Whether one of these peers reads a network's ONNX file."""
    return not _READS_ONNX.isdisjoint(peers)


class Runner(Protocol):
    """A network loaded by a peer, its input in place."""

    def run(self) -> None:
        """Run the network once; the output is there when this returns."""
        ...

    def output(self) -> Floats:
        """Output of the last run."""
        ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """A peer with a number of threads."""

    peer: Peer
    threads: int
    build: str = ""
    """Name of our build; empty for all others."""
    precision: str = FLOAT32
    """Lowest precision that it may compute in."""

    @property
    def name(self) -> str:
        """Name of the contestant in results."""
        who = f"{self.peer.value} {self.build}".strip()
        return f"{who}, {self.threads} thread{'s' if self.threads > 1 else ''}"


def contestants(
    peers: Sequence[Peer],
    cores: int,
    *,
    builds: Sequence[Build] = (),
    images: bool = True,
    described: bool = True,
    one_thread: bool = True,
) -> tuple[Contestant, ...]:
    """Every peer with one thread and with all; parallel modes need several.

    Parameters
    ----------
    peers
        Peers that take part.
    cores
        Number of all threads.
    builds
        Builds of ours; each has the threads it was made for.
    images
        Whether the network reads images.
    described
        Whether its nodes are known; who has to build it from them stays away where they are not.
    one_thread
        Whether every peer runs on one thread, too.
    """
    others = [
        Contestant(peer, threads, precision=peer.precision)
        for peer in peers
        if peer is not Peer.OURS and (images or peer not in _ON_IMAGES)
        if described or peer in _READS_ONNX
        for threads in sorted({1, cores} if one_thread else {cores})
        if threads > 1 or peer not in _PARALLEL
    ]
    ours = [Contestant(Peer.OURS, build.lanes, build.name, build.precision) for build in builds]
    return (*others, *(ours if Peer.OURS in peers else ()))


def prepare(contestant: Contestant, case: Case, folder: Path) -> Runner:
    """Load a network; imports the peer, and no other.

    Parameters
    ----------
    contestant
        Contestant, with its number of threads.
    case
        Network and input to run.
    folder
        Folder of the network's ONNX file.
    """
    try:
        home = import_module(f"tvm_ios_lab.peers.{_HOMES[contestant.peer]}")
    except ModuleNotFoundError as error:
        raise PeerError(
            f"{contestant.peer.value} needs the module {error.name}, which is not installed; "
            f"{_REMEDY[contestant.peer is Peer.OURS]}"
        ) from error
    make: Callable[[Contestant, Case, Path], Runner] = home.make
    return make(contestant, case, folder)
