"""``tvm-ios c-api``: prints how to build a C program that runs exported models without Python."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.core.onednn_files import ONEDNN_SONAME, ONEDNN_VARIABLE, find_onednn
from tvm_ios.errors import HostError
from tvm_ios.host import require_relay_tvm

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

_RUNTIME = "libtvm_runtime.so"
# A TVM with CUDA wants these of whoever starts a program; Python's import hook loads them.
_OF_CUDA = ("libcudart.so", "libcuda_stub.so")


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "c-api",
        description="Print the arguments of the C compiler that build a program with tvm_ios.h: "
        "cc program.c $(tvm-ios c-api) -o program",
    )
    parser.add_argument(
        "--environment",
        action="store_true",
        help="print the variables that such a program needs to find this TVM's own libraries: "
        "env $(tvm-ios c-api --environment) ./program",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the arguments, or the variables, on one line."""
    # First, so that the libraries TVM needs are loaded and can be looked up.
    require_relay_tvm()
    import tvm._ffi.base as tvm  # noqa: PLC0415 - a verb imports TVM only when it runs

    from tvm_ios.runtime.artifact.model_image import C_API_FOLDER  # noqa: PLC0415

    if arguments.environment:
        print(shlex.join(_environment()))
        return 0
    runtime = Path(tvm._LIB._name).with_name(_RUNTIME)  # noqa: SLF001 - TVM says it nowhere else
    if not runtime.exists():
        raise HostError(f"there is no {runtime}; build TVM's target `runtime`")
    words = (
        f"-I{C_API_FOLDER}",
        str(C_API_FOLDER / "tvm_ios_model.c"),
        f"-L{runtime.parent}",
        f"-Wl,-rpath,{runtime.parent}",
        "-ltvm_runtime",
        "-ldl",
        "-lpthread",
    )
    print(shlex.join(words))
    return 0


def _environment() -> list[str]:
    """Variables with the place of oneDNN, if any, and TVM's CUDA libraries to load before."""
    find_onednn()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    loaded = sorted({line.split(maxsplit=5)[-1] for line in maps if "/" in line})
    wanted = [path for path in loaded if Path(path).name.startswith(_OF_CUDA)]
    onednn = [path for path in loaded if Path(path).name.startswith(ONEDNN_SONAME)]
    return [
        *([f"LD_PRELOAD={':'.join(wanted)}"] if wanted else []),
        *([f"{ONEDNN_VARIABLE}={onednn[0]}"] if onednn else []),
    ]
