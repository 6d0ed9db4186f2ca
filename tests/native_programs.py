"""Programs of ``tests/runtime/native``, compiled for this machine or for another processor."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tvm_ios.runtime.base.native_runtime import C_API_FOLDER
from tvm_ios.support.c_compiler import find_c_compiler

__all__ = ["ARM_COMPILER", "ARM_EMULATOR", "compiled", "output_of", "require_arm"]

ARM_COMPILER = ("aarch64-linux-gnu-gcc", "-static")
ARM_EMULATOR = "qemu-aarch64"
_SOURCES = Path(__file__).parent / "runtime" / "native"


def compiled(source: str, folder: Path, *flags: str, compiler: Sequence[str] = ()) -> Path | None:
    """Program of a C file; None where the compiler has no such sanitizer."""
    program = folder / f"{Path(source).stem}-{len(list(folder.iterdir()))}"
    command = [*(compiler or find_c_compiler()), "-std=gnu11", "-Wall", *flags]
    command += [f"-I{C_API_FOLDER}", str(_SOURCES / source), "-o", str(program), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sanitized = any(flag.startswith("-fsanitize") for flag in flags)
    assert sanitized or done.returncode == 0, done.stderr
    return program if done.returncode == 0 else None


def require_arm() -> None:
    """Skip a test where nothing compiles for aarch64 or runs its programs."""
    missing = [name for name in (ARM_COMPILER[0], ARM_EMULATOR) if not shutil.which(name)]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} (Debian: gcc-aarch64-linux-gnu, qemu-user)")


def output_of(*command: object) -> subprocess.CompletedProcess[str]:
    """Ended run of a command, with its output as text."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
