"""What every test needs: all cores for TVM, a compile cache of its own, and child interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tvm_ios.host.processor import default_lanes

# Both are read when TVM or the compile cache is first used, so they are set before any test module
# is imported. A user's cache and profile database must not decide what a test sees.
os.environ.setdefault("TVM_NUM_THREADS", str(default_lanes()))
_CACHE = tempfile.mkdtemp(prefix="tvm-ios-tests-")
os.environ["TVM_IOS_CACHE_DIR"] = _CACHE

# A shared machine makes deadlines of examples meaningless.
settings.register_profile("tvm-ios", deadline=None)
settings.load_profile("tvm-ios")

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the session's cache."""
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds ``tvm_ios`` and ``pyproject.toml``."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run an interpreter with arguments and extra environment in an empty folder.

    Variables that choose a TVM or its libraries are taken out first; ``python`` is another
    interpreter than the one that runs the tests.
    """
    folder = tmp_path / "cwd"
    folder.mkdir()
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TVM_", "TOPHUB", "PYTHON", "LD_LIBRARY_PATH"))
    }
    clean["TVM_IOS_CACHE_DIR"] = _CACHE

    def run(
        *arguments: str, python: str = sys.executable, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=folder,
            env=clean | environment,
        )

    return run


@pytest.fixture(scope="session")
def branching() -> tuple[Any, dict[str, Any]]:
    """A small Relay network and its parameters; TVM compiles it in a second.

    Two levels of branches, of which the first has convolutions that may merge.
    """
    import numpy as np
    import tvm
    from tvm import relay

    def convolution(data: Any, name: str, channels: int, kernel: int, inputs: int) -> Any:
        value = relay.nn.conv2d(
            data,
            relay.var(name, shape=(channels, inputs, kernel, kernel)),
            padding=(kernel // 2, kernel // 2),
            channels=channels,
            kernel_size=(kernel, kernel),
        )
        return relay.nn.relu(value)

    data = relay.var("data", shape=(1, 16, 8, 8))
    first = [
        convolution(data, "left", 16, 1, 16),
        convolution(data, "middle", 16, 3, 16),
        convolution(data, "right", 16, 1, 16),
        relay.nn.max_pool2d(data, (3, 3), padding=(1, 1)),
    ]
    joined = relay.concatenate(first, axis=1)
    second = [convolution(joined, "deep", 8, 3, 64), convolution(joined, "wide", 16, 1, 64)]
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.concatenate(second, axis=1)))
    dense = relay.nn.dense(pooled, relay.var("dense", shape=(10, 24)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(dense))
    random = np.random.default_rng(1)
    params = {}
    for var in mod["main"].params[1:]:
        assert var.name_hint != "data"
        shape = [int(extent) for extent in var.checked_type.shape]
        params[var.name_hint] = tvm.nd.array(random.uniform(-0.5, 0.5, shape).astype("float32"))
    return mod, params
