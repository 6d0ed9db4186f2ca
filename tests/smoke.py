"""The installed package, from a model to a file that Python and C run; ``make wheel`` calls it.

It runs in an environment that holds the wheel and what the wheel asks for, and no more: no pytest,
and nothing of the repository but this file and the example in C.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule

import tvm_ios
from tvm_ios.host import host_target

REPOSITORY = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("tvm-ios")


def network() -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """Three branches of a convolution each, joined: the least that has something to schedule."""
    image = relay.var("image", shape=(1, 8, 14, 14))
    weights = [relay.var(f"w{i}", shape=(8, 8, 3, 3)) for i in range(3)]
    branches = [
        relay.nn.relu(relay.nn.conv2d(image, w, channels=8, kernel_size=(3, 3), padding=(1, 1)))
        for w in weights
    ]
    joined = relay.Function([image, *weights], relay.concatenate(branches, axis=1))
    random = np.random.default_rng(0)
    params = {f"w{i}": random.standard_normal((8, 8, 3, 3)).astype("float32") for i in range(3)}
    return tvm.IRModule.from_expr(joined), params


def by_stock_tvm(mod: tvm.IRModule, params: dict[str, np.ndarray], image: np.ndarray) -> np.ndarray:
    """What plain TVM computes, one operator after another."""
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(mod, host_target(), params=params)
    module = GraphModule(built["default"](tvm.cpu()))
    module.run(image=image)
    return module.get_output(0).numpy()


def said(*words: str | Path, **environment: str) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        [str(word) for word in words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    return done.stdout


def check_in_c(file: Path, image: np.ndarray, wanted: np.ndarray) -> None:
    """Build the example in C and compare its bytes."""
    program, given, got = (file.with_name(name) for name in ("run_model", "image.bin", "out.bin"))
    example = REPOSITORY / "examples" / "c" / "run_model.c"
    said("cc", "-O2", example, *shlex.split(said(COMMAND, "c-api")), "-o", program)
    image.tofile(given)
    libraries = dict(
        word.split("=", 1) for word in shlex.split(said(COMMAND, "c-api", "--environment"))
    )
    said(program, file, "--input", given, "--output", got, **libraries)
    np.testing.assert_array_equal(np.fromfile(got, "float32"), wanted.ravel())


def main() -> None:
    """Tune, export, load, run and compare; an error ends it."""
    home = Path(tvm_ios.__file__).resolve()
    if home.is_relative_to(REPOSITORY / "tvm_ios"):
        raise SystemExit(f"smoke: tvm_ios is the one of the repository, {home}")
    mod, params = network()
    image = np.random.default_rng(1).standard_normal((1, 8, 14, 14)).astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TVM_IOS_CACHE_DIR"] = folder  # as on a machine that has compiled nothing yet
        file = Path(folder) / "branches.so"
        model = tvm_ios.tune(mod, params, time_budget=20)
        print(model.report().as_text())
        model.export_library(file)
        with tvm_ios.load(file) as executor:
            executor.run(image=image)
            wanted = executor.get_output(0).numpy()
        np.testing.assert_allclose(wanted, by_stock_tvm(mod, params, image), rtol=1e-4, atol=1e-4)
        print(said(COMMAND, "run", file, "--print-time"), end="")
        check_in_c(file, image, wanted)
    print(f"smoke: tvm-ios in {home.parent} tunes, exports, loads and runs, in Python and in C")


if __name__ == "__main__":
    main()
