"""The handle of PyTorch's process."""

from __future__ import annotations

import json
import select
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, Self

from tvm_ios.measure.sampling import TimedRuns
from tvm_ios_lab.gpu.jobs import child_environment
from tvm_ios_lab.gpu.names import AUTOTUNED, COMPILED, EAGER, TORCH_GRAPH
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.places import ROOT

__all__ = ["MODES", "TorchProcess", "python_with_torch"]

MODES = (EAGER, TORCH_GRAPH, COMPILED, AUTOTUNED)
_RUN_LIMIT_S = 120.0
_PROBE_LIMIT_S = 120.0


def python_with_torch(candidates: tuple[str, ...]) -> str | None:
    """The first interpreter that has PyTorch with a GPU."""
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    for python in candidates:
        try:
            done = subprocess.run(
                [python, "-c", code],
                capture_output=True,
                check=False,
                timeout=_PROBE_LIMIT_S,
                env=child_environment({}, python=python),
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return python
    return None


class TorchProcess:
    """PyTorch with one network; a context manager.

    Parameters
    ----------
    python
        The interpreter that has it.
    case
        The folder of the network.
    cache
        Folder of what it compiled.
    """

    def __init__(self, python: str, case: Path, cache: Path) -> None:
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "triton"),
        }
        self._process = subprocess.Popen(
            [python, "-m", "tvm_ios_lab.gpu.torch_worker", str(case)],
            cwd=ROOT,
            env=child_environment(caches, python=python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def versions(self) -> dict[str, str]:
        """Versions of PyTorch and what it brings."""
        return self._ask({"do": "versions"}, _PROBE_LIMIT_S)

    def prepare(self, mode: str, limit_s: float) -> dict[str, float]:
        """Make a mode ready: ``seconds`` it took, and the ``error`` of its output."""
        return self._ask({"do": "prepare", "mode": mode}, limit_s)

    def timed(self, mode: str) -> TimedRuns:
        """The runs of a mode that was prepared."""
        return partial(self._time_ns, mode)

    def _time_ns(self, mode: str, number: int) -> int:
        request = {"do": "time", "mode": mode, "number": number}
        return int(self._ask(request, _RUN_LIMIT_S)["ns"])

    def _ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError as error:
            raise PeerError("PyTorch's process has ended; see the step's log") from error
        if not select.select([self._process.stdout], [], [], limit_s)[0]:
            self._process.kill()
            raise PeerError(f"PyTorch: no answer to {request} after {limit_s:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(
                f"PyTorch's process ended with {self._process.wait()} at {request}; "
                "see the step's log"
            )
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise PeerError(f"PyTorch, {request.get('mode', request['do'])}: {answer['failed']}")
        return answer
