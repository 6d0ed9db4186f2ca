"""Plans come back from their images; how C reads these is tested beside the loader."""

from __future__ import annotations

import json
import random
import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.libraries.cudnn.calls import CALL
from tvm_ios.core.parts import Part
from tvm_ios.errors import PlanError
from tvm_ios.plan.image import PLAN_VERSION, PREFIX, ProgramFacts, image_bytes
from tvm_ios.plan.image_reader import read_image
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.lower import lower_plan
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.known import read_call


def plan_of(random_graph, seed):
    return lower_plan(*random_graph(random.Random(seed)), lanes=2)


def in_parts(plan):
    """The plan with a part for each output, the first of which reads all inputs."""
    parts = (
        Part(
            name=f"part{number}",
            inputs=tuple(entry.name for entry in plan.inputs if not number),
            outputs=(number,),
        )
        for number in range(len(plan.outputs))
    )
    launches = (replace(each, split_alone=n % 3 > 0) for n, each in enumerate(plan.launches))
    return replace(plan, parts=tuple(parts), launches=tuple(launches))


def sealed(body):
    """An image whose version, size and checksum are right, whatever else it says."""
    size = PREFIX.size + len(body)
    return PREFIX.pack(b"tvm-ios plan", PLAN_VERSION, size, zlib.crc32(body)) + body


@given(seed=st.integers(0, 10**9))
def test_an_image_reads_back_as_the_same_plan(random_graph, seed):
    plan = plan_of(random_graph, seed)
    facts = ProgramFacts(parameters=frozenset(["n0"]), features=("avx",), refused="it is März")
    called = replace(facts, calls=(bytes(range(16)), b"", bytes(8)), call_function="run_it")
    for image in (image_bytes(plan), image_bytes(plan, facts), image_bytes(plan, called)):
        assert read_image(image) == plan
        assert sealed(image[PREFIX.size :]) == image


@given(seed=st.integers(0, 10**9))
def test_parts_come_back_with_their_inputs_and_outputs(random_graph, seed):
    plan = in_parts(plan_of(random_graph, seed))
    assert read_image(image_bytes(plan)) == plan


def test_another_version_is_refused(random_graph):
    image = bytearray(image_bytes(plan_of(random_graph, 1)))
    struct.pack_into("<I", image, 12, PLAN_VERSION + 1)
    with pytest.raises(PlanError, match=f"version {PLAN_VERSION + 1}.*reads version"):
        read_image(bytes(image))


@pytest.mark.parametrize("image", [b"", b"[]", b"\0" * 500, sealed(b""), sealed(b"\0" * 500)])
def test_garbage_is_refused(image):
    with pytest.raises(PlanError, match="not the image of a plan"):
        read_image(image)


def test_every_damage_is_seen(random_graph):
    image = image_bytes(plan_of(random_graph, 5))
    for place in range(len(image)):
        for damaged in (
            image[:place] + bytes([image[place] ^ 0x20]) + image[place + 1 :],
            image[:place],
        ):
            with pytest.raises(PlanError, match="export the model again"):
                read_image(damaged)


@given(data=st.data())
def test_any_one_change_is_read_back_or_refused_in_one_line(random_graph, data):
    """The checksum fits, so that what follows it is what is tested."""
    body = bytearray(image_bytes(plan_of(random_graph, 5))[PREFIX.size :])
    place = data.draw(st.integers(0, len(body) // 4 - 1)) * 4
    struct.pack_into("<i", body, place, data.draw(st.sampled_from([0, 7, -1, 1 << 20, -(1 << 31)])))
    try:
        plan = read_image(sealed(bytes(body)))
    except PlanError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most changes are refused, some are not
    else:
        assert len(plan.launches) > 0


def test_groups_out_of_order_are_refused(random_graph):
    plan = plan_of(random_graph, 3)
    assert len(plan.groups) > 1
    with pytest.raises(PlanError, match=r"groups list launches .*, out of order; lower the module"):
        image_bytes(replace(plan, groups=plan.groups[::-1]))


def test_calls_of_cudnn_are_stored_with_the_plan(random_graph):
    plan = lower_plan(*random_graph(random.Random(3)), lanes=2)
    made = LibraryCall(CudnnLibrary.name, CALL)
    launches = (replace(plan.launches[0], call=made), *plan.launches[1:])
    changed = replace(plan, launches=launches)
    image = image_bytes(changed)
    assert read_image(image, read_call) == changed
    assert changed.as_text().count("by cuDNN") == 1
    with pytest.raises(PlanError, match="call is a call of a library, and no libraries are known"):
        read_image(image)
    for old, new, message in (
        (
            b'"library": "cudnn"',
            b'"library": "cubla"',
            "library is 'cubla'; .* knows the libraries",
        ),
        (b'"relu": ', b'"reLU": ', "unknown field 'reLU'"),
        (json.dumps(made.to_data()).encode(), b"[]", "not the image of a plan"),
    ):
        other = image[PREFIX.size :].replace(old, new + b" " * (len(old) - len(new)))
        with pytest.raises(PlanError, match=message):
            read_image(sealed(other), read_call)
