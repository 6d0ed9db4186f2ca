"""The C code itself: random programs on real lanes, plain and under the thread sanitizer."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.base import native_runtime
from tvm_ios.runtime.base.native_runtime import (
    LANE_EXECUTOR,
    NativeRuntime,
    shared_runtime,
)
from tvm_ios.support.c_compiler import find_c_compiler

_SOURCES = Path(__file__).parents[1] / "native"
_INCLUDE = Path(native_runtime.__file__).parent / "native"


def build(folder: Path, *flags: str, source: str = "stress_main.c") -> Path | None:
    program = folder / "program"
    command = [*find_c_compiler(), "-std=gnu11", "-Wall", *flags, f"-I{_INCLUDE}"]
    command.append(str(_SOURCES / source))
    done = subprocess.run(
        [*command, "-o", str(program), "-lpthread"], capture_output=True, text=True, check=False
    )
    assert "-fsanitize=thread" in flags or done.returncode == 0, done.stderr
    return program if done.returncode == 0 else None


def run(program: Path, *arguments: int) -> subprocess.CompletedProcess[str]:
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_random_programs_run_in_order_and_once(tmp_path):
    program = build(tmp_path, "-O2", "-Werror")
    for lanes, programs in ((1, 100), (2, 300), (4, 100)):
        done = run(program, lanes, programs, lanes)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.slow
def test_the_thread_sanitizer_finds_nothing(tmp_path):
    program = build(tmp_path, "-O1", "-g", "-fsanitize=thread")
    if program is None:
        pytest.skip("the C compiler has no thread sanitizer")
    for lanes in (2, 3):
        done = run(program, lanes, 200, lanes)
        if "unexpected memory mapping" in done.stderr:
            pytest.skip("this kernel's memory layout does not suit the thread sanitizer")
        assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_a_child_forked_at_the_worst_moment_runs(tmp_path):
    program = build(tmp_path, "-O2", "-Werror", source="fork_main.c")
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_compiled_once_for_equal_sources():
    assert shared_runtime() is shared_runtime()
    assert LANE_EXECUTOR.as_object() == LANE_EXECUTOR.as_object()
    assert LANE_EXECUTOR.as_object().suffix == ".o"


def test_a_library_without_the_runtime_is_refused():
    with pytest.raises(ArtifactError, match="interface version None"):
        NativeRuntime(ctypes.CDLL(None))
