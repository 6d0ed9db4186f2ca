"""PyTorch on a GPU, timed by events on request; runs in the interpreter that has it.

    python -m tvm_ios_lab.gpu.torch_worker FOLDER

One JSON line on standard input is one request, one on standard output its answer: PyTorch and TVM
bring their own CUDA libraries, which had better not meet in one process.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Read when CUDA starts: no product is rounded to TF32, whatever a library thinks of it.
os.environ["NVIDIA_TF32_OVERRIDE"] = "0"

import torch

from tvm_ios_lab.gpu.names import AUTOTUNED, COMPILED, EAGER, TORCH_GRAPH
from tvm_ios_lab.peers.network import Case, read_case, relative_error
from tvm_ios_lab.peers.torch_peer import torch_module

__all__ = ["serve"]

_WARMUPS = 3

Run = Callable[[], torch.Tensor]


class _Network:
    """The network, ready to run in any mode."""

    def __init__(self, case: Case, device: torch.device) -> None:
        self._module = torch_module(case).to(device)
        self._image = torch.from_numpy(case.input).to(device)
        self._reference = case.reference
        self._runs: dict[str, Run] = {}

    def prepare(self, mode: str) -> dict[str, Any]:
        """Make one mode ready: what that took, and how far its output is off."""
        begin = time.perf_counter()
        makers: dict[str, Callable[[], Run]] = {
            EAGER: self._eager,
            TORCH_GRAPH: self._graph,
            COMPILED: partial(self._compiled, "reduce-overhead"),
            AUTOTUNED: partial(self._compiled, "max-autotune"),
        }
        run = makers[mode]()
        for _ in range(_WARMUPS):
            output = run()
        array = output.float().cpu().numpy()
        self._runs[mode] = run
        error = relative_error(array, self._reference)
        return {"seconds": time.perf_counter() - begin, "error": error}

    def time_ns(self, mode: str, number: int) -> dict[str, Any]:
        """Nanoseconds of back-to-back runs, between two events."""
        run = self._runs[mode]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(number):
            run()
        end.record()
        end.synchronize()
        return {"ns": round(begin.elapsed_time(end) * 1e6)}

    def _eager(self) -> Run:
        return lambda: self._module(self._image)

    def _graph(self) -> Run:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARMUPS):
                self._module(self._image)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = self._module(self._image)

        def run() -> torch.Tensor:
            graph.replay()
            return output

        return run

    def _compiled(self, mode: str) -> Run:
        compiled = torch.compile(self._module, mode=mode, fullgraph=True)
        return lambda: compiled(self._image)


def serve(folder: Path) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers print is no answer
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    network: _Network | None = None
    with torch.inference_mode():
        for line in sys.stdin:
            try:
                network = network or _Network(read_case(folder), torch.device("cuda"))
                answer = _answer(network, json.loads(line))
            except Exception as error:  # noqa: BLE001 - whatever PyTorch raises is told
                traceback.print_exc()
                answer = {"failed": f"{type(error).__name__}: {str(error).strip()[:500]}"}
            print(json.dumps(answer), file=answers, flush=True)


def _answer(network: _Network, request: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "prepare":
        return network.prepare(request["mode"])
    if request["do"] == "time":
        return network.time_ns(request["mode"], request["number"])
    versions = {"torch": torch.__version__, "torch's CUDA": str(torch.version.cuda)}
    return versions | {"torch's cuDNN": str(torch.backends.cudnn.version())}


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
