"""The footer survives what it must, and every damage is seen."""

from __future__ import annotations

import tracemalloc

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios.onnx.rest import Rest
from tvm_ios.plan.image import PLAN_VERSION
from tvm_ios.plan.plan import ALIGNMENT_BYTES
from tvm_ios.runtime.artifact.footer import Footer, append_footer, read_footer
from tvm_ios.runtime.artifact.identity import ArtifactIdentity

IDENTITY = ArtifactIdentity(
    plan_version=PLAN_VERSION,
    tvm_version="0.17.0",
    target="llvm",
    architecture="x86_64",
    processor_model="vendor_id A",
    features=(),
    lanes=2,
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)))
    append_footer(path, IDENTITY)
    return path


def test_reads_back(file):
    assert read_footer(file) == Footer(identity=IDENTITY, story=None, image=b"")
    assert file.read_bytes().startswith(bytes(range(256)))


def test_a_rest_reads_back_beside_story_and_image(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"library")
    rest = Rest(name="net.onnx", text="1 of 2", fronts=("a",), outputs=("b", "a"), model=b"\0\1")
    append_footer(path, IDENTITY, None, b"image", rest)
    assert read_footer(path) == Footer(identity=IDENTITY, story=None, image=b"image", rest=rest)


def test_every_shorter_file_is_refused(file):
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        with pytest.raises(ArtifactError, match="without a tvm-ios footer"):
            read_footer(file)


def test_every_changed_byte_is_seen(file):
    content = file.read_bytes()
    for index in range(len(content)):
        file.write_bytes(content[:index] + bytes([content[index] ^ 0x20]) + content[index + 1 :])
        with pytest.raises(ArtifactError):
            read_footer(file)


def test_a_large_file_is_read_piece_by_piece(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(16 << 20))
    append_footer(path, IDENTITY)
    tracemalloc.start()
    try:
        assert read_footer(path).identity == IDENTITY
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20


def test_parameters_lie_on_boundaries_and_are_not_copied(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"library")
    large = memoryview(bytes(range(256)) * (16 << 12))
    tracemalloc.start()
    try:
        append_footer(path, IDENTITY, image=b"image", parameters=(b"small", large))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20
    footer = read_footer(path)
    begin, end = footer.parameters
    assert (begin % ALIGNMENT_BYTES, footer.image) == (0, b"image")
    values = path.read_bytes()[begin:end]
    assert values.startswith(b"small")
    assert values[ALIGNMENT_BYTES:] == large


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_footer(tmp_path)
