"""The output of ``tune`` before its end: when it is written, replaced, and left behind."""

from __future__ import annotations

import os

import pytest

import tvm_ios
from tvm_ios.cli.early_file import EarlyFile
from tvm_ios.errors import ArtifactError, CostError
from tvm_ios.support.progress import Progress
from tvm_ios.support.time_budget import Reserve, TimeBudget


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


class Model:
    """A model whose file takes a second to write."""

    def __init__(self, clock, content):
        self.clock = clock
        self.content = content

    def export_library(self, path):
        self.clock.now_s += 1.0
        path.write_text(self.content)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def output(tmp_path):
    path = tmp_path / "net.so"
    path.write_text("what was there")
    return path


def early(output, clock, seconds=None):
    shown = []
    file = EarlyFile(output, shown.append, TimeBudget(seconds, clock_s=clock), clock)
    return file, shown


def step(model=None, what=""):
    return Progress(phase="search", detail=what, model=model)


def test_every_step_is_shown_and_no_file_is_written_in_the_first_seconds(output, clock):
    file, shown = early(output, clock)
    steps = [step(), step(Model(clock, "first"), "in order"), step()]
    for each in steps:
        file(each)
    assert shown == steps
    assert output.read_text() == "what was there"
    clock.now_s = 4.0
    file(step())
    assert output.read_text() == "first"


def test_a_better_model_takes_its_place_but_not_at_once(output, clock, capsys):
    file, _ = early(output, clock)
    clock.now_s = 6.1
    file(step(Model(clock, "first"), "in order"))
    assert output.read_text() == "first"
    file(step(Model(clock, "second"), "in better order"))
    file(step(Model(clock, "third"), "in the best order"))
    assert output.read_text() == "first"
    clock.now_s += 10.0
    file(step())
    assert output.read_text() == "third"
    file(step())
    assert capsys.readouterr().err.splitlines() == [
        f"after 7.1 s: a first model in {output} (in order); better ones replace it",
        f"after 18.1 s: a better model in {output} (in the best order)",
    ]


def test_a_budget_that_is_nearly_over_has_no_time_for_it(output, clock):
    """A tenth of what is left may go into writing, by the estimate of the call."""
    budget = TimeBudget(16, clock_s=clock)
    budget.set_aside(Reserve.FILE, 1.0)
    file = EarlyFile(output, lambda _: None, budget, clock)
    clock.now_s = 6.0
    file(step(Model(clock, "first"), "in order"))
    assert output.read_text() == "what was there"
    clock.now_s = 5.0
    file(step())
    assert output.read_text() == "first"


def test_before_the_last_race_no_model_that_waits_is_written(output, clock):
    file, _ = early(output, clock)
    file(step(Model(clock, "first"), "in order"))
    clock.now_s = 9.0
    for phase in ("lower", "compare"):
        file(Progress(phase=phase))
    assert output.read_text() == "what was there"
    file(step())
    assert output.read_text() == "first"


def test_what_a_file_took_is_set_aside_for_the_last_one(output, clock):
    budget = TimeBudget(60, clock_s=clock)
    file = EarlyFile(output, lambda _: None, budget, clock)
    clock.now_s = 5.0
    file(step(Model(clock, "first"), "in order"))
    assert budget.left_s - budget.spare_s == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("models", "left", "told"),
    [
        (0, "what was there", "is as it was: there was no model yet"),
        (1, "1", "has the best model so far (model 1; tvm-ios show"),
        (2, "2", "has the best model so far (model 2; tvm-ios show"),
    ],
)
def test_an_interrupt_leaves_the_best_so_far(output, clock, models, left, told):
    file, _ = early(output, clock)

    @file.left_behind()
    def call():
        for number in range(1, models + 1):
            clock.now_s = 5.0
            file(step(Model(clock, str(number)), f"model {number}"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        call()
    assert output.read_text() == left
    (note,) = caught.value.__notes__
    assert note.startswith(f"{output} {told}")


def test_a_model_whose_writing_is_interrupted_is_left_behind(output, clock):
    class Slow(Model):
        def export_library(self, path):
            late = self.clock.now_s >= 6.0
            super().export_library(path)
            if not late:
                path.write_text("half of it")
                raise KeyboardInterrupt

    file, _ = early(output, clock)
    clock.now_s = 5.0
    with pytest.raises(KeyboardInterrupt) as caught, file.left_behind():
        file(step(Slow(clock, "1"), "in order"))
    assert output.read_text() == "1"
    assert "has the best model so far (in order; " in caught.value.__notes__[0]


def test_an_error_leaves_it_as_well_and_says_so(output, clock):
    file, _ = early(output, clock)

    @file.left_behind()
    def call():
        file(step(Model(clock, "1"), "in order"))
        raise CostError("the device is gone")

    with pytest.raises(CostError) as caught:
        call()
    assert output.read_text() == "1"
    assert "has the best model so far" in caught.value.__notes__[0]
    with pytest.raises(CostError) as caught, early(output, clock)[0].left_behind():
        raise CostError("the device is gone")
    assert not hasattr(caught.value, "__notes__")


def test_a_file_that_cannot_be_written_ends_nothing(output, clock, caplog):
    class Unwritable(Model):
        def export_library(self, path):
            raise ArtifactError(f"{path}: no space left")

    file, _ = early(output, clock)
    clock.now_s = 5.0
    file(step(Unwritable(clock, ""), "in order"))
    file(step(Model(clock, "second"), "in better order"))
    assert output.read_text() == "what was there"
    assert "no early file was written: " in caplog.text


@pytest.mark.slow
def test_a_real_model_replaces_the_file_in_one_rename(fork, clock, output, monkeypatch):
    renamed = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: renamed.append(b) or replace(a, b))
    model = tvm_ios.compile_schedule(*fork, "llvm -opt-level=0", lanes=1)
    file, _ = early(output, clock)
    clock.now_s = 5.0
    file(step(model, "in order"))
    assert renamed.count(output) == 1
    with tvm_ios.load(output) as executor:
        assert executor.get_num_outputs() == 1
