"""Compilation of the project's own C files with the C compiler TVM needs, once per content.

Objects and libraries lie in ``native`` of the cache folder, under the digest of sources, flags and
compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own
from tvm_ios.support.whole_file import sealed, unsealed, write_bytes

__all__ = [
    "NativeSource",
    "compile_ahead",
    "compile_object",
    "compile_shared",
    "find_c_compiler",
    "source_digest",
    "sources_of",
]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class NativeSource:
    """A C file of the project, compiled on first use."""

    path: Path

    @cached_property
    def digest(self) -> str:
        """Digest of the file and its includes: prices taken with other code are not comparable."""
        return source_digest(self.path)

    @cached_property
    def library(self) -> ctypes.CDLL:
        """The C file as a loaded library of its own."""
        return ctypes.CDLL(str(self.as_library()))

    def as_library(self) -> Path:
        """The C file as a shared library in the cache."""
        return compile_shared(self.path)

    def as_object(self) -> Path:
        """The C file as an object file, to link into an exported model."""
        return compile_object(self.path)


@cache
def find_c_compiler() -> tuple[str, ...]:
    """Command of the C compiler: ``$CC``, else ``cc``, ``gcc`` or ``clang``."""
    candidates = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    for candidate in candidates:
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return tuple(command)
    raise HostError(
        f"no C compiler: looked for {', '.join(candidates)} on PATH; "
        "install one (Debian: apt-get install gcc libc6-dev) or set CC"
    )


def _require_compiler(command: str) -> tuple[str, ...]:
    words = tuple(shlex.split(command))
    if words and shutil.which(words[0]):
        return words
    raise HostError(f"there is no C compiler {command!r} on PATH; install it or give another")


def sources_of(source: Path) -> tuple[Path, ...]:
    """A C file with all files that it includes by a name in quotes, directly or not.

    Names are looked up beside the including file; files that are not there are left to the
    compiler.
    """
    found = {source.resolve(): None}  # a set that keeps its order
    pending = [source.resolve()]
    while pending:
        file = pending.pop()
        for name in re.findall(
            r'^\s*#\s*include\s*"([^"]+)"', file.read_text("utf-8"), re.MULTILINE
        ):
            included = (file.parent / name).resolve()
            if included.is_file() and included not in found:
                found[included] = None
                pending.append(included)
    return tuple(found)


def source_digest(source: Path) -> str:
    """Digest of a C file and the files it includes."""
    digest = hashlib.sha256()
    for file in sources_of(source):
        # Comments count, too: changing one in the executor's files makes all kept prices stale.
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def compile_object(source: Path) -> Path:
    """Compile a C file to a position-independent object; return its path in the cache."""
    return _compile(source, ("-c",), ".o")


def compile_shared(source: Path, flags: Sequence[str] = (), *, compiler: str | None = None) -> Path:
    """Compile a C file to a shared library; return its path in the cache.

    ``compiler`` is the command of another C compiler than :func:`find_c_compiler` finds. Without it
    and without flags the library is linked from the file's object, which exported models take.
    """
    return _compile(source, ("-shared", *flags), ".so", compiler)


def compile_ahead(*products: Callable[[], Path | None]) -> threading.Thread:
    """A thread that compiles C files one after the other, so that nobody waits for them later.

    ``products`` are functions that compile one each, such as :meth:`NativeSource.as_library`.
    Failures are reported to whoever needs the product, also those of a TVM whose import Ctrl-C has
    ended half-way.
    """

    def work() -> None:
        for product in products:
            with suppress(Exception):
                product()

    thread = threading.Thread(target=work, name="tvm-ios-native", daemon=True)
    thread.start()
    return thread


def _compile(source: Path, flags: tuple[str, ...], suffix: str, other: str | None = None) -> Path:
    compiler = find_c_compiler() if other is None else _require_compiler(other)
    options = ("-std=gnu11", "-O2", "-fPIC", "-Wall", *flags)
    # Nodes of a cluster share the folder, and need not be alike.
    machine = (platform.machine(), platform.libc_ver())
    recipe = repr((compiler, options, source_digest(source), machine))
    key = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    product = own_folder(cache_directory() / "native") / f"{source.stem}-{key}{suffix}"
    require_own(product)
    with _making(product):  # who needs what a thread compiles ahead waits for it
        if not _is_whole(product):
            plain = flags == ("-shared",) and other is None
            _make(product, (*compiler, *options, str(compile_object(source) if plain else source)))
    return product


@cache
def _making(_product: Path) -> threading.Lock:
    """Lock of the thread that compiles a product in this process."""
    return threading.Lock()


def _is_whole(product: Path) -> bool:
    """Whether compiled code is there, and ends with the digest of all before it."""
    try:
        return unsealed(product.read_bytes()) is not None
    except OSError:
        return False


def _make(product: Path, command: tuple[str, ...]) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
            compiled = Path(folder) / product.name
            _say_once(command[0], product.parent)
            _run([*command, "-o", str(compiled), "-lpthread"], command[-1])
            # No other process ever loads half a library.
            write_bytes(product, sealed(compiled.read_bytes()), mode=0o644)
    except OSError as error:
        raise HostError(
            f"cannot write compiled code to {product.parent}: {error}; "
            "set TVM_IOS_CACHE_DIR to a folder you can write"
        ) from error


def _run(command: Sequence[str], source: str) -> None:
    _LOG.debug("runs %s", shlex.join(command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise HostError(
            f"cannot run the C compiler {command[0]}: {error}; let CC name one"
        ) from error
    if done.returncode != 0:
        raise HostError(
            f"C compiler failed on {source} (exit {done.returncode}): "
            f"{shlex.join(command)}\n{done.stderr.strip()}"
        )


@cache
def _say_once(compiler: str, directory: Path) -> None:
    """Say, once a process, why its first call waits; a warning shows even without logging."""
    _LOG.warning("compiling the C code of tvm-ios with %s, once; kept in %s", compiler, directory)
