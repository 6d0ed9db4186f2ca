"""Peers as the measurement sees them: something that runs one network, prepared beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path

from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32
from tvm_ios_lab.peers.build import Build
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Case
from tvm_ios_lab.peers.subject import member_folders
from tvm_ios_lab.peers.together import AtOnce, InTurn, OnThreads, Runner, Together

__all__ = ["Contestant", "Peer", "contestants", "need_onnx_file", "prepare"]


class Peer(Enum):
    """A framework in one of its modes."""

    ONNXRUNTIME = "onnxruntime"
    """Operators one after the other, each on all threads."""
    ONNXRUNTIME_PARALLEL = "onnxruntime parallel"
    """``ORT_PARALLEL``: as many operators at a time as there are threads, each on one thread."""
    ONNXRUNTIME_PARALLEL_WIDE = "onnxruntime parallel wide"
    """``ORT_PARALLEL`` with as many threads again inside operators."""
    ONNXRUNTIME_STOPS = "onnxruntime stops"
    """Threads that stop spinning at the end of each run: those of one session are in the way of the
    next one's otherwise."""
    ONNXRUNTIME_THREADS = "onnxruntime threads"
    """onnxruntime on several networks: a thread for each, with a session of one thread."""
    OPENVINO = "openvino"
    """Latency hint, float32."""
    OPENVINO_REQUESTS = "openvino requests"
    """OpenVINO on several networks: a request for each, all begun before the first is waited for;
    latency hint, float32."""
    OPENVINO_STREAMS = "openvino streams"
    """Requests like those, with the throughput hint in place of the one for latency."""
    OPENVINO_DEFAULT = "openvino-default"
    """Latency hint only: it computes in bfloat16 where the processor can."""
    TORCH = "torch"
    """Eager, inference mode."""
    TORCH_CHANNELS_LAST = "torch channels last"
    """PyTorch on NHWC tensors, for which oneDNN has its fastest convolutions."""
    TORCH_COMPILE = "torch compile"
    """``torch.compile`` with frozen weights."""
    OURS = "tvm-ios"
    """Build of ours that ``ours`` has exported; of several networks, the kept one of each."""
    OURS_JOINT = "tvm-ios joint"
    """Build of ours that has several networks in one file."""

    @property
    def precision(self) -> str:
        """Lowest precision that it may compute in; builds of ours say theirs themselves."""
        return BFLOAT16 if self is Peer.OPENVINO_DEFAULT else FLOAT32

    @property
    def is_ours(self) -> bool:
        """Whether it runs builds of ours."""
        return self in _OF_US


_PARALLEL = frozenset({Peer.ONNXRUNTIME_PARALLEL, Peer.ONNXRUNTIME_PARALLEL_WIDE})
_TOGETHER: dict[Peer, type[Together]] = {
    Peer.ONNXRUNTIME_THREADS: OnThreads,
    Peer.OPENVINO_REQUESTS: AtOnce,
    Peer.OPENVINO_STREAMS: AtOnce,
}
"""Runners of several networks at a time, by peer; others run one network after another."""
_OF_SEVERAL = frozenset({Peer.ONNXRUNTIME_STOPS, *_TOGETHER})
"""Peers that differ from others on several networks only."""
_OF_US = frozenset({Peer.OURS, Peer.OURS_JOINT})
_ON_IMAGES = frozenset({Peer.TORCH_CHANNELS_LAST})
"""Peers that differ from others on images only."""
_HOMES = {
    Peer.ONNXRUNTIME: "onnxruntime_peer",
    Peer.ONNXRUNTIME_PARALLEL: "onnxruntime_peer",
    Peer.ONNXRUNTIME_PARALLEL_WIDE: "onnxruntime_peer",
    Peer.ONNXRUNTIME_STOPS: "onnxruntime_peer",
    Peer.ONNXRUNTIME_THREADS: "onnxruntime_peer",
    Peer.OPENVINO: "openvino_peer",
    Peer.OPENVINO_REQUESTS: "openvino_peer",
    Peer.OPENVINO_STREAMS: "openvino_peer",
    Peer.OPENVINO_DEFAULT: "openvino_peer",
    Peer.TORCH: "torch_peer",
    Peer.TORCH_CHANNELS_LAST: "torch_peer",
    Peer.TORCH_COMPILE: "torch_peer",
    Peer.OURS: "our_peer",
    Peer.OURS_JOINT: "our_peer",
}
_READS_ONNX = frozenset(
    peer for peer, home in _HOMES.items() if home in {"onnxruntime_peer", "openvino_peer"}
)

_REMEDY = {
    False: "run `lab/tvm_ios_lab/peers/setup.sh FOLDER` and use FOLDER/bin/python",
    True: "run `make setup` and give --ours-python .venv/bin/python",
}
"""Next step where a module is missing, by whether it is one of ours."""


def need_onnx_file(peers: Iterable[Peer]) -> bool:
    """Whether one of these peers reads a network's ONNX file."""
    return not _READS_ONNX.isdisjoint(peers)


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
    several: bool = False,
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
    several
        Whether the networks are several.
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
        if not peer.is_ours and (images or peer not in _ON_IMAGES)
        if several or peer not in _OF_SEVERAL
        if described or peer in _READS_ONNX
        for threads in _threads(peer, cores, one_thread=one_thread)
        if threads > 1 or peer not in _PARALLEL
    ]
    form = Peer.OURS_JOINT if several else Peer.OURS
    ours = [Contestant(form, build.lanes, build.name, build.precision) for build in builds]
    in_turn = [Contestant(Peer.OURS, cores)] if several else []
    return (*others, *(in_turn if Peer.OURS in peers else ()), *(ours if form in peers else ()))


def _threads(peer: Peer, cores: int, *, one_thread: bool) -> list[int]:
    if peer is Peer.ONNXRUNTIME_THREADS:
        return [1]
    return sorted({1, cores} if one_thread else {cores})


def prepare(contestant: Contestant, cases: Sequence[Case], folder: Path) -> Together:
    """Networks of a contestant, loaded to run together; its peer is imported, and no other.

    Parameters
    ----------
    contestant
        Contestant, with its number of threads.
    cases
        Networks and inputs to run.
    folder
        Folder of the network's ONNX file, or of the build that has several networks.
    """
    try:
        home = import_module(f"tvm_ios_lab.peers.{_HOMES[contestant.peer]}")
    except ModuleNotFoundError as error:
        raise PeerError(
            f"{contestant.peer.value} needs the module {error.name}, which is not installed; "
            f"{_REMEDY[contestant.peer.is_ours]}"
        ) from error
    if contestant.peer is Peer.OURS_JOINT:
        joint: Together = home.make_joint(contestant, cases, folder)
        return joint
    make: Callable[[Contestant, Case, Path], Runner] = home.make
    pairs = zip(cases, member_folders(folder), strict=True)
    runners = [make(contestant, case, member) for case, member in pairs]
    return _TOGETHER.get(contestant.peer, InTurn)(runners)
