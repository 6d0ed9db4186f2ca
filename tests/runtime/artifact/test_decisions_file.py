"""Files of decisions: which are read, and what is said of others."""

from __future__ import annotations

import pytest

from tests.runtime.artifact.test_decisions import DECISIONS
from tests.runtime.artifact.test_footer import IDENTITY
from tvm_ios.errors import ArtifactError, OptionError, ScheduleError
from tvm_ios.runtime.artifact.decisions_file import read_decisions, read_given
from tvm_ios.runtime.artifact.footer import append_footer
from tvm_ios.runtime.artifact.story import ModelStory


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.decisions.json"
    path.write_text(DECISIONS.to_json())
    return path


def test_a_file_or_several_are_read(file, tmp_path):
    assert read_given(None) == {}
    assert read_given(file) == read_given(str(file)) == {str(file): DECISIONS}
    alone = tmp_path / "s.json"
    alone.write_text(DECISIONS.schedule.to_json())
    assert list(read_given([file, alone])) == [str(file), str(alone)]


def test_an_exported_model_has_decisions(tmp_path):
    path = tmp_path / "net.so"
    path.write_bytes(b"library")
    story = ModelStory(
        graph=DECISIONS.graph,
        schedule_json=DECISIONS.schedule.to_json(),
        report="",
        machine={"processor": "a fast one"},
        versions={},
    )
    append_footer(path, IDENTITY, story)
    found = read_decisions(path)
    assert (found.schedule, found.graph) == (DECISIONS.schedule, DECISIONS.graph)
    assert (found.origin.lanes, found.origin.kept) == (IDENTITY.lanes, "")
    assert "the schedule was given there; made on a fast one, lanes: 2" in found.as_text()


def test_files_that_cannot_be_read_are_named(file, tmp_path):
    bare = tmp_path / "old.so"
    bare.write_bytes(b"library")
    append_footer(bare, IDENTITY)
    damaged = tmp_path / "damaged.json"
    damaged.write_text(file.read_text()[:-20])
    for path, kind, message in (
        (tmp_path / "no.json", ArtifactError, "cannot read .*no.json"),
        (tmp_path / "no.so", ArtifactError, "no.so: cannot be read"),
        (bare, ArtifactError, "old.so was exported before"),
        (damaged, ScheduleError, "damaged.json: no decisions: the file is no JSON"),
    ):
        with pytest.raises(kind, match=message):
            read_decisions(path)


@pytest.mark.parametrize(
    ("given", "message"), [(3, "decisions is 3"), ([1], r"is \[1\]"), (["a"] * 5, "has 5 files")]
)
def test_values_that_are_no_files_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        read_given(given)
