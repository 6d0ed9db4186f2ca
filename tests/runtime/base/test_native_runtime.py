"""The C code itself: random programs on real lanes, plain and under the thread sanitizer."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

import tvm_ios
from tests.native_programs import (
    ARM_COMPILER,
    ARM_EMULATOR,
    compiled,
    output_of,
    require_arm,
)
from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.base.native_runtime import (
    LANE_EXECUTOR,
    NativeRuntime,
    shared_runtime,
)

POSIX_ALONE = "-DTVM_IOS_PLAIN"
"""Flag that takes nothing of Linux but what POSIX has, as other systems would."""


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), (POSIX_ALONE,)], ids=["Linux", "POSIX"])
def test_random_programs_run_in_order_and_once(tmp_path, flags):
    program = compiled("stress_main.c", tmp_path, "-O2", "-Werror", *flags)
    for lanes, programs in ((1, 25), (2, 75), (4, 50)):
        done = output_of(program, lanes, programs, lanes)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), (POSIX_ALONE,)], ids=["Linux", "POSIX"])
def test_the_thread_sanitizer_finds_nothing(tmp_path, flags):
    program = compiled("stress_main.c", tmp_path, "-O1", "-g", "-fsanitize=thread", *flags)
    if program is None:
        pytest.skip("the C compiler has no thread sanitizer")
    for lanes, programs in ((2, 50), (3, 25)):
        done = output_of(program, lanes, programs, lanes)
        if "unexpected memory mapping" in done.stderr:
            pytest.skip("this kernel's memory layout does not suit the thread sanitizer")
        assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.slow(1)
@pytest.mark.parametrize("flags", [(), (POSIX_ALONE,)], ids=["Linux", "POSIX"])
def test_a_child_forked_at_the_worst_moment_runs(tmp_path, flags):
    done = output_of(compiled("fork_main.c", tmp_path, "-O2", "-Werror", *flags))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_random_programs_run_on_an_emulated_arm(tmp_path):
    require_arm()
    program = compiled("stress_main.c", tmp_path, "-O2", "-Werror", compiler=ARM_COMPILER)
    for lanes, programs in ((1, 30), (3, 30)):
        done = output_of(ARM_EMULATOR, program, lanes, programs, lanes)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


SOURCES = sorted(Path(tvm_ios.__file__).parent.rglob("native/*.c"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_all_c_files_compile_for_arm(source, tmp_path):
    require_arm()
    target = tmp_path / "file.o"
    words = (*ARM_COMPILER, "-std=gnu11", "-O1", "-Wall", "-Werror", "-fPIC", "-c", source)
    done = output_of(*words, "-o", target)
    assert done.returncode == 0, done.stderr


def test_compiled_once_for_equal_sources():
    assert shared_runtime() is shared_runtime()
    assert LANE_EXECUTOR.as_object() == LANE_EXECUTOR.as_object()
    assert LANE_EXECUTOR.as_object().suffix == ".o"


def test_a_library_without_the_runtime_is_refused():
    with pytest.raises(ArtifactError, match="interface version None"):
        NativeRuntime(ctypes.CDLL(None))
