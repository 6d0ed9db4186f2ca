"""``tvm-ios c-api``: prints how to build a C program that runs exported models without Python."""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import HostError
from tvm_ios.host import require_tvm
from tvm_ios.host.onednn_files import ONEDNN_SONAME, ONEDNN_VARIABLE, find_onednn
from tvm_ios.support.c_compiler import compile_shared
from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own
from tvm_ios.support.whole_file import write_bytes

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

_RUNTIME, _FFI = "libtvm_runtime.so", "libtvm_ffi.so"
"""Library that a C program links with: TVM's runtime, or TVM-FFI's with TVM 0.27."""


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
        help="print the variables that such a program needs to find oneDNN, if it is here: "
        "env $(tvm-ios c-api --environment) ./program",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the arguments, or the variables, on one line."""
    if arguments.environment:
        print(shlex.join(_environment()))
        return 0
    require_tvm()
    # A verb imports TVM only when it runs.
    from tvm_ios.runtime.base.native_runtime import C_API_FOLDER  # noqa: PLC0415
    from tvm_ios.runtime.base.tvm_names import (  # noqa: PLC0415
        IS_FFI,
        ffi_library,
        runtime_library,
    )

    library = ffi_library() if IS_FFI else runtime_library()
    linked = Path(library._name).with_name(_FFI if IS_FFI else _RUNTIME)  # noqa: SLF001
    if not linked.exists():
        raise HostError(f"there is no {linked}; build TVM's target `runtime`")
    words = (
        f"-I{C_API_FOLDER}",
        str(C_API_FOLDER / "tvm_ios_model.c"),
        *([] if IS_FFI else _stand_ins(linked, C_API_FOLDER / "stand_in.c")),
        f"-L{linked.parent}",
        f"-Wl,-rpath,{linked.parent}",
        f"-l{linked.stem.removeprefix('lib')}",
        "-ldl",
        "-lpthread",
    )
    print(shlex.join(words))
    return 0


def _stand_ins(runtime: Path, source: Path) -> list[str]:
    """Words that link an empty library for each that a TVM runtime wants and the loader lacks.

    A TVM that was built with CUDA names CUDA's libraries, of which models on a CPU call nothing.
    """
    # Who has such a library on LD_LIBRARY_PATH uses it all the same: it comes before an rpath.
    listed = subprocess.run(
        ["ldd", str(runtime)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("LD_")},
    ).stdout
    folder = own_folder(cache_directory().resolve() / "native" / "stand-ins")
    made = []
    for name in re.findall(r"(\S+) => not found", listed):
        # Its symbols have versions named after it, without which the loader complains.
        options = (f"-Wl,-soname,{name}", "-Wl,--default-symver")
        _copy(compile_shared(source, options), folder / name)
        made.append(str(folder / name))
    if not made:
        return []
    # The linker would drop libraries of which nothing is called, and refuse what they lack.
    before = "-Wl,--push-state,--no-as-needed,--allow-shlib-undefined"
    return [before, *made, "-Wl,--pop-state", f"-Wl,-rpath,{folder}"]


def _copy(library: Path, place: Path) -> None:
    require_own(place)
    if place.exists() and filecmp.cmp(library, place, shallow=False):
        return
    try:
        write_bytes(place, library.read_bytes(), mode=0o644)
    except OSError as error:
        raise HostError(
            f"cannot write {place}: {error.strerror}; set TVM_IOS_CACHE_DIR to a folder you can "
            "write"
        ) from error


def _environment() -> list[str]:
    """Variables, with values, that name the oneDNN of this machine; none if there is none."""
    find_onednn()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    loaded = sorted({line.split(maxsplit=5)[-1] for line in maps if "/" in line})
    onednn = [path for path in loaded if Path(path).name.startswith(ONEDNN_SONAME)]
    return [f"{ONEDNN_VARIABLE}={path}" for path in onednn[:1]]
