"""What a C file is made of: the digest covers what the compiler reads, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tvm_ios
from tvm_ios.errors import HostError
from tvm_ios.support import c_compiler
from tvm_ios.support.c_compiler import (
    NativeSource,
    compile_ahead,
    compile_object,
    compile_shared,
    find_c_compiler,
    source_digest,
    sources_of,
)

ROOT = Path(tvm_ios.__file__).parent
UNITS = ("lane_executor.c", "remote_lanes.c", "cuda_streams.c", "cudnn_calls.c")


def only(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


@pytest.fixture
def tree(tmp_path):
    """A copy of all C code of the package."""
    for source in (*ROOT.rglob("*.c"), *ROOT.rglob("*.h")):
        copy = tmp_path / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    return tmp_path


def digests(folder: Path) -> dict[str, str]:
    return {unit: source_digest(only(folder, unit)) for unit in UNITS}


@pytest.mark.parametrize(
    ("header", "changed"),
    [
        ("cudnn_calls.c", {"cudnn_calls.c"}),
        ("remote_lanes.h", {"remote_lanes.c"}),
        ("lane_region.h", {"lane_executor.c", "remote_lanes.c"}),
        ("lane_executor.c", {"lane_executor.c", "remote_lanes.c"}),
        ("tvm_abi.h", set(UNITS)),
    ],
)
def test_a_change_counts_for_those_that_include_it(tree, header, changed):
    before = digests(tree)
    with only(tree, header).open("a") as file:
        file.write("/* changed */\n")
    after = digests(tree)
    assert {unit for unit in UNITS if before[unit] != after[unit]} == changed


@pytest.mark.parametrize("unit", UNITS)
def test_the_compiler_reads_the_same_files(unit):
    source = only(ROOT, unit)
    command = [*find_c_compiler(), "-std=gnu11", "-MM", str(source)]
    rule = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = rule.partition(":")[2].replace("\\\n", " ").split()
    assert set(sources_of(source)) == {Path(file).resolve() for file in files}


def test_a_library_is_compiled_again_when_a_header_changes(tmp_path):
    source, header = tmp_path / "answer.c", tmp_path / "answer.h"
    header.write_text("#define ANSWER 1\n")
    source.write_text('#include "answer.h"\nint answer(void) { return ANSWER; }\n')
    first = compile_shared(source)
    assert compile_shared(source) == first
    header.write_text("#define ANSWER 2\n")
    assert compile_shared(source) != first


def test_a_native_source_is_a_library_and_an_object_of_one_digest(tmp_path):
    path = tmp_path / "seven.c"
    path.write_text("int seven(void) { return 7; }\n")
    source = NativeSource(path)
    assert source.library.seven() == 7
    assert source.library is source.library
    assert source.as_object().suffix == ".o"
    assert source.digest == source_digest(path)


def test_a_file_is_compiled_once_whoever_asks_and_when(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "twelve.c"
    path.write_text("int twelve(void) { return 12; }\n")
    inputs = []
    run = c_compiler._run

    def noted(command, source):
        inputs.append(Path(source).suffix)
        run(command, source)

    monkeypatch.setattr(c_compiler, "_run", noted)
    source = NativeSource(path)
    thread = compile_ahead(source.as_library, source.as_object)
    assert source.library.twelve() == 12  # waits for the thread, or the thread for this
    thread.join()
    assert inputs == [".c", ".o"]


def test_failures_ahead_are_left_to_who_needs_the_product(tmp_path, capfd):
    path = tmp_path / "ten.c"
    path.write_text("int ten(void) { return 10; }\n")
    source = NativeSource(path)

    def fail():
        raise AttributeError("module 'tvm' has no attribute 'runtime'")

    compile_ahead(fail, source.as_library).join()
    assert "Traceback" not in capfd.readouterr().err
    assert source.library.ten() == 10


def test_others_can_read_what_was_compiled_where_they_may(tmp_path):
    source = tmp_path / "eight.c"
    source.write_text("int eight(void) { return 8; }\n")
    before = os.umask(0o022)
    try:
        modes = [made(source).stat().st_mode & 0o444 for made in (compile_shared, compile_object)]
    finally:
        os.umask(before)
    assert modes == [0o444, 0o444]


def test_compiling_says_where_it_keeps_what_and_only_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(f"int {name}(void) {{ return 1; }}\n")
        compile_shared(tmp_path / f"{name}.c")
    (line,) = caplog.messages
    assert line.startswith("compiling the C code of tvm-ios with ")
    assert line.endswith(f", once; kept in {tmp_path / 'cache' / 'native'}")


def test_a_library_that_others_may_write_is_refused_and_a_new_one_is_not_like_that(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "nine.c"
    source.write_text("int nine(void) { return 9; }\n")
    before = os.umask(0o002)
    try:
        product = compile_shared(source)
    finally:
        os.umask(before)
    assert product.stat().st_mode & 0o7777 == 0o644
    for planted in (product, product.parent, product.parent.parent):
        kept = planted.stat().st_mode & 0o7777
        planted.chmod(0o777)
        with pytest.raises(HostError, match=f"{planted} belongs to .* has mode 0777"):
            compile_shared(source)
        planted.chmod(kept)
    assert NativeSource(source).library.nine() == 9


@pytest.mark.parametrize("made", [compile_shared, compile_object])
@pytest.mark.parametrize("length", [0, 1, 1000, -1])
def test_a_truncated_file_is_compiled_again(tmp_path, monkeypatch, made, length):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "ten.c"
    source.write_text("int ten(void) { return 10; }\n")
    product = made(source)
    whole = product.read_bytes()
    product.write_bytes(whole[:length])
    assert made(source) == product
    assert product.read_bytes() == whole


def test_a_file_with_a_changed_byte_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "eleven.c"
    source.write_text("int eleven(void) { return 11; }\n")
    product = compile_shared(source)
    damaged = bytearray(product.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    product.write_bytes(damaged)
    assert NativeSource(source).library.eleven() == 11
    assert product.read_bytes() != damaged
