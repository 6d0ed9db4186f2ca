"""Scenarios of ``cuda_child.py`` under the stand-in for the CUDA driver and runtime."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCENARIO_S = 1200
"""Longest time for a scenario under the stand-in for CUDA."""


@dataclass(frozen=True)
class CudaStandIn:
    """Runs scenarios of ``cuda_child.py`` under the stand-in for the CUDA driver and runtime."""

    server: subprocess.Popen[str]
    """The program that forks for each scenario."""
    folder: Path
    models: Path
    """Compiled networks; all workers of a session share them."""
    wheel: Path
    """A folder of packages in which cuDNN's lies, its stand-in in it."""

    def run(
        self, scenario: str, model: str | None = None, *, cudnn: bool = False, **arguments: Any
    ) -> dict[str, Any]:
        """What a scenario saw, on a network that is compiled once a session."""
        environment = {"CUDA_STAND_IN_LOG": str(self.folder / "calls")}
        packages = [str(self.wheel)] if cudnn else []
        if model is not None:
            folder = self._compiled(model)
            arguments["folder"] = str(folder)
            environment["CUDA_STAND_IN_ARGUMENTS"] = str(folder / "arguments.txt")
        return self._child(scenario, arguments, environment, packages)

    def _compiled(self, model: str) -> Path:
        folder = self.models / model
        with (self.models / f"{model}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self.models) as unfinished:
                    made = Path(unfinished) / model
                    made.mkdir()
                    self._child("build", {"model": model, "folder": str(made)}, {}, [])
                    made.rename(folder)
        return folder

    def _child(
        self,
        scenario: str,
        arguments: dict[str, Any],
        environment: dict[str, str],
        packages: list[str],
    ) -> dict[str, Any]:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        output, errors = self.folder / "output", self.folder / "errors"
        request = {
            "scenario": scenario,
            "arguments": arguments,
            "environment": environment,
            "packages": packages,
            "output": str(output),
            "errors": str(errors),
        }
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        answered, _, _ = select.select([self.server.stdout], [], [], SCENARIO_S)
        if not answered:
            os.killpg(self.server.pid, signal.SIGKILL)
        status = self.server.stdout.readline()
        assert status == "0\n", f"exit status {status!r}\n{errors.read_text()}"
        result: dict[str, Any] = json.loads(output.read_text().splitlines()[-1])
        return result


@pytest.fixture(scope="session")
def cuda_stand_in(
    cuda_stand_in_library: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CudaStandIn]:
    """The stand-in and what runs under it."""
    from tvm_ios.support.c_compiler import compile_shared

    folder = tmp_path_factory.mktemp("cuda")
    source = Path(__file__).with_name("native") / "cudnn_stand_in.c"
    library = folder / "wheel" / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"
    library.parent.mkdir(parents=True)
    library.symlink_to(compile_shared(source, ("-Wl,-soname,libcudnn.so.9",)))
    models = Path(os.environ["TVM_IOS_CACHE_DIR"]) / "cuda-models"
    models.mkdir(exist_ok=True)
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("cuda_child.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # One thread: a fork has none of the others.
        env=os.environ | {"LD_PRELOAD": cuda_stand_in_library, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    yield CudaStandIn(server, folder, models, folder / "wheel")
    server.communicate()
