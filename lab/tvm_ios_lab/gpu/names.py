"""Names of contestants in results; no TVM here."""

from __future__ import annotations

from tvm_ios_lab.gpu.agenda import Kernels

__all__ = [
    "AUTOTUNED",
    "COMPILED",
    "EAGER",
    "GRAPH",
    "GREEDY",
    "IOS",
    "PEERS",
    "SCHEDULES",
    "SEQUENTIAL",
    "STREAMS",
    "TORCH_GRAPH",
    "TVM",
    "TVM_GRAPH",
    "our_name",
]

SEQUENTIAL, GREEDY, IOS = "sequential", "greedy", "IOS-both"
SCHEDULES = (SEQUENTIAL, GREEDY, "IOS-merge", "IOS-concurrent", IOS, "IOS-both + list")
"""Names of schedules, as :mod:`tvm_ios_lab.bench.evaluation` has them."""
STREAMS, GRAPH = "streams", "graph"
TVM, TVM_GRAPH = "TVM", "TVM CUDA graph"
EAGER, TORCH_GRAPH = "torch eager", "torch CUDA graph"
COMPILED, AUTOTUNED = "torch.compile", "torch.compile max-autotune"
"""PyTorch's modes ``reduce-overhead``, which compiles quickly and replays CUDA graphs, and
``max-autotune``, which tries kernels for minutes."""
PEERS = (TVM, TVM_GRAPH, EAGER, TORCH_GRAPH, COMPILED, AUTOTUNED)


def our_name(kernels: Kernels, who: str, way: str) -> str:
    """Name of a contestant of ours: a schedule on some kernels, in one way of running it."""
    return f"{kernels.value} {who}, {way}"
