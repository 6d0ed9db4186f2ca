"""What a file tells of its model comes back, or is refused in one line."""

from __future__ import annotations

import tracemalloc
import zlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.operator_graphs import op
from tests.runtime.artifact.test_footer import IDENTITY
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.artifact import story
from tvm_ios.runtime.artifact.footer import append_footer, read_footer, read_story
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search.baselines import sequential_schedule

GRAPH = OperatorGraph("net", (op("a", flops=5), op("b", 0)))
STORY = ModelStory(
    graph=GRAPH,
    schedule_json=sequential_schedule(GRAPH).to_json(),
    report="kept sequential",
    machine={"processor": "some"},
    versions={"tvm": "0.17"},
)


def test_a_story_comes_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(99))
    append_footer(path, IDENTITY, STORY, b"a plan")
    assert read_story(path) == STORY
    assert read_story(path).schedule.graph_name == "net"
    assert (read_footer(path).identity, read_footer(path).image) == (IDENTITY, b"a plan")


def test_so_does_what_became_of_bfloat16():
    outcome = PrecisionOutcome(dtype="bfloat16", operators=2, errors=(0.1, None), speedup=1.5)
    told = replace(STORY, precision=outcome)
    assert ModelStory.from_bytes(told.to_bytes()) == told
    assert told.as_record()["precision"]["errors"] == [0.1, None]
    assert STORY.as_record()["precision"] is None


def test_a_file_without_one_has_none(tmp_path):
    path = tmp_path / "file"
    for content in (b"", bytes(99)):
        path.write_bytes(content)
        append_footer(path, IDENTITY)
        assert read_story(path) is None


def test_other_bytes_are_refused():
    other = replace(STORY, schedule_json=STORY.schedule_json.replace("relu", "tanh")[:-1])
    for packed in (b"hello", other.to_bytes(), STORY.to_bytes()[:-4]):
        with pytest.raises(ArtifactError, match="what the file tells of its model cannot be read"):
            ModelStory.from_bytes(packed)


def test_a_small_file_that_unpacks_to_much_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(story, "MOST_BYTES", 1 << 20)
    packed = zlib.compress(bytes(64 << 20))
    path = tmp_path / "file"
    path.write_bytes(bytes(99))
    append_footer(path, IDENTITY, SimpleNamespace(to_bytes=lambda: packed))
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match="has more than 1 MiB; export it again") as caught:
            read_story(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert most < 8 << 20
