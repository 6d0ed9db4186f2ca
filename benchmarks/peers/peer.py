"""What a peer is to the measurement: something that runs one network, prepared beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Protocol

from benchmarks.peers.errors import PeerError
from benchmarks.peers.network import Case, Floats

__all__ = ["Contestant", "Peer", "Runner", "contestants", "prepare"]


class Peer(Enum):
    """A framework in one of its modes."""

    ONNXRUNTIME = "onnxruntime"
    """One operator after the other, each on all threads."""
    ONNXRUNTIME_PARALLEL = "onnxruntime parallel"
    """``ORT_PARALLEL``: as many operators at a time as there are threads, each on one thread."""
    ONNXRUNTIME_PARALLEL_WIDE = "onnxruntime parallel wide"
    """``ORT_PARALLEL`` with as many threads again inside operators."""
    OPENVINO = "openvino"
    """Latency hint, float32."""
    TORCH = "torch"
    """Eager, inference mode."""
    TORCH_CHANNELS_LAST = "torch channels last"
    """The same on NHWC tensors, for which oneDNN has its fastest convolutions."""
    TORCH_COMPILE = "torch compile"
    """``torch.compile`` with frozen weights."""


_PARALLEL = frozenset({Peer.ONNXRUNTIME_PARALLEL, Peer.ONNXRUNTIME_PARALLEL_WIDE})
_HOMES = {
    Peer.ONNXRUNTIME: "onnxruntime_peer",
    Peer.ONNXRUNTIME_PARALLEL: "onnxruntime_peer",
    Peer.ONNXRUNTIME_PARALLEL_WIDE: "onnxruntime_peer",
    Peer.OPENVINO: "openvino_peer",
    Peer.TORCH: "torch_peer",
    Peer.TORCH_CHANNELS_LAST: "torch_peer",
    Peer.TORCH_COMPILE: "torch_peer",
}


class Runner(Protocol):
    """A network loaded by a peer, its input in place."""

    def run(self) -> None:
        """Run the network once; the output is there when this returns."""
        ...

    def output(self) -> Floats:
        """What the last run made."""
        ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """A peer with a number of threads."""

    peer: Peer
    threads: int

    @property
    def name(self) -> str:
        """As the results call it."""
        return f"{self.peer.value}, {self.threads} thread{'s' if self.threads > 1 else ''}"


def contestants(peers: tuple[Peer, ...], cores: int) -> tuple[Contestant, ...]:
    """Every peer with one thread and with all; parallel modes need several."""
    return tuple(
        Contestant(peer, threads)
        for peer in peers
        for threads in sorted({1, cores})
        if threads > 1 or peer not in _PARALLEL
    )


def prepare(contestant: Contestant, case: Case, folder: Path) -> Runner:
    """Load a network; imports the peer, and no other.

    Parameters
    ----------
    contestant
        Who runs it, on how many threads.
    case
        What is run.
    folder
        Where the network's ONNX file lies.

    Raises
    ------
    PeerError
        If the peer is not installed.
    """
    try:
        home = import_module(f"benchmarks.peers.{_HOMES[contestant.peer]}")
    except ModuleNotFoundError as error:
        raise PeerError(
            f"{contestant.peer.value} needs the module {error.name}, which is not installed; "
            "run `benchmarks/peers/setup.sh FOLDER` and use FOLDER/bin/python"
        ) from error
    make: Callable[[Contestant, Case, Path], Runner] = home.make
    return make(contestant, case, folder)
