"""The loader in C: damaged bytes of any kind are one clear error, and never a crash."""

from __future__ import annotations

import ctypes
import random
import struct
import zlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.native_programs import (
    ARM_COMPILER,
    ARM_EMULATOR,
    compiled,
    output_of,
    require_arm,
)
from tvm_ios.errors import PlanError
from tvm_ios.plan import data_type
from tvm_ios.plan.image import ProgramFacts, image_bytes
from tvm_ios.plan.library_call import LibraryCall, LibraryName
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.plan import BufferKind
from tvm_ios.runtime.base import loaded_plan
from tvm_ios.runtime.base.loaded_plan import Kernel, LoadedPlan
from tvm_ios.runtime.base.native_runtime import DLTensor, NativeLaunch, shared_runtime
from tvm_ios.runtime.base.tvm_abi import TENSOR_CODE

_CHECKSUM_END = 28
"""Bytes of an image that its checksum does not cover: magic, version, size, and itself."""


@pytest.fixture
def plan(random_graph):
    return lower_plan(*random_graph(random.Random(7)), lanes=2)


def load(image: bytes) -> str:
    """Error text of an image; empty where it is sound."""
    runtime = shared_runtime()
    handle = runtime.plan_load(image, len(image), 1, 0)
    if not handle:
        return runtime.failed_text().decode()
    # What was found sound can be made use of.
    program = runtime.plan_program(handle, 0, 2, 1, None)
    runtime.program_free(program)
    runtime.plan_free(handle)
    return ""


def sealed(image: bytearray) -> bytes:
    """An image whose checksum and size are right, whatever else it says."""
    struct.pack_into("<Q", image, 16, len(image))
    struct.pack_into("<I", image, 24, zlib.crc32(image[_CHECKSUM_END:]))
    return bytes(image)


def test_calls_point_to_the_tensors_of_a_plan(plan):
    size = 1 << 20
    places = {buffer: (buffer + 1) * size for buffer in range(len(plan.buffers))}
    loaded = LoadedPlan(shared_runtime(), plan, places, (2, 3))
    loaded.place(0, 64)
    places[0] = 64
    loaded.bind(Kernel(0x100 + n, resource=n, serial=n == 1) for n in range(len(plan.launches)))
    for number, tensor in enumerate(plan.tensors):
        made = DLTensor.from_address(loaded.tensor(number))
        assert made.data == places[tensor.buffer] + tensor.byte_offset
        assert (made.device_type, made.device_id, made.byte_offset) == (2, 3, 0)
        fields = (made.code, made.bits, made.vector_lanes)
        assert fields == data_type.dlpack_fields(tensor.dtype)
        assert tuple((ctypes.c_int64 * made.ndim).from_address(made.shape)) == tensor.shape
    for number, launch in enumerate(plan.launches):
        for whole in (False, True):
            made = NativeLaunch.from_address(loaded.launch(number, unsplit=whole))
            assert (made.kernel, made.resource or 0) == (0x100 + number, number)
            assert made.serial == (whole or number == 1 or not launch.split)
            tensors = (*launch.inputs, *launch.outputs)
            arguments = (ctypes.c_void_p * made.num_arguments).from_address(made.arguments)
            assert list(arguments) == [loaded.tensor(tensor) for tensor in tensors]
            codes = (ctypes.c_int32 * made.num_arguments).from_address(made.type_codes)
            assert set(codes) <= {TENSOR_CODE}


def test_what_has_no_place_lies_in_the_arena_or_behind_it(plan):
    kinds = [buffer.kind for buffer in plan.buffers]
    outside = [n for n, kind in enumerate(kinds) if kind is not BufferKind.ARENA]
    arena, own = 1 << 20, {outside[0]: 1 << 30}
    loaded = LoadedPlan(shared_runtime(), plan, own)
    size_bytes = loaded.place_all(own, arena)
    end = arena + -(-plan.arena_bytes // 64) * 64
    behind = {}
    for number in outside[1:]:
        behind[number] = end
        end += -(-plan.buffers[number].size_bytes // 64) * 64
    assert size_bytes == end - arena
    for number, tensor in enumerate(plan.tensors):
        buffer = plan.buffers[tensor.buffer]
        inside = arena + (buffer.arena_offset or 0)
        begin = {**own, **behind}.get(tensor.buffer, inside)
        assert DLTensor.from_address(loaded.tensor(number)).data == begin + tensor.byte_offset


def test_every_flipped_byte_is_refused(plan):
    image = image_bytes(plan)
    assert load(image) == ""
    for place in range(len(image)):
        damaged = bytearray(image)
        damaged[place] ^= 1 << place % 8
        assert "export the model again" in load(bytes(damaged)), place


def test_every_truncated_image_is_refused(plan):
    image = image_bytes(plan)
    for size in range(len(image)):
        assert "export the model again" in load(image[:size])
        assert "export the model again" in load(sealed(bytearray(image[: max(size, 28)])))
    assert "export the model again" in load(sealed(bytearray(image) + bytes(8)))


def test_another_version_is_told_with_both(plan):
    image = bytearray(image_bytes(plan))
    image[12] += 1
    assert f"(image {image[12]}), and this one reads image {image[12] - 1}" in load(bytes(image))


def image_with_calls(random_graph, seed, folder):
    """File of an image whose first launch is a call of a library."""
    file = folder / f"{seed}.image"
    plan = lower_plan(*random_graph(random.Random(seed)), lanes=2)
    call = LibraryCall(LibraryName("some", "Some"), SimpleNamespace(to_data=dict))
    called = (replace(plan.launches[0], call=call), *plan.launches[1:])
    facts = ProgramFacts(calls=(bytes(24),), call_function="run_it")
    file.write_bytes(image_bytes(replace(plan, launches=called), facts))
    return file


@pytest.mark.slow
def test_the_sanitizers_find_nothing_in_changed_images(random_graph, tmp_path):
    flags = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    program = compiled("fuzz_main.c", tmp_path, *flags)
    if program is None:
        pytest.skip("the C compiler has no sanitizers")
    for seed in range(3):
        image = image_with_calls(random_graph, seed, tmp_path)
        done = output_of(program, image, 9000, seed)
        assert done.returncode == 0, done.stderr
        assert 0 < int(done.stdout) < 6_000


@pytest.mark.slow
def test_an_emulated_arm_finds_the_same_images_sound(random_graph, tmp_path):
    require_arm()
    here = compiled("fuzz_main.c", tmp_path, "-O1")
    arm = compiled("fuzz_main.c", tmp_path, "-O1", compiler=ARM_COMPILER)
    image = image_with_calls(random_graph, 3, tmp_path)
    done = output_of(ARM_EMULATOR, arm, image, 3000, 1)
    assert done.stdout == output_of(here, image, 3000, 1).stdout != ""


def test_an_image_that_c_refuses_is_an_error_in_python(plan, monkeypatch):
    monkeypatch.setattr(loaded_plan, "image_bytes", lambda *_: image_bytes(plan)[:-1])
    with pytest.raises(PlanError, match="do not match their checksum"):
        LoadedPlan(shared_runtime(), plan, {})
