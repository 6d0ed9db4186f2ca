"""Records of cells and steps: a file each, read strictly, and the same for experiments and GPU."""

from __future__ import annotations

import json

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios_lab.gpu.ledger import Ledger, Outcome
from tvm_ios_lab.harness.ledger import Status, read_noun, run_missing

EARLIER = """{
 "step": "squeezenet_bs1.outputs.untuned",
 "status": "skipped",
 "seconds": 1.5,
 "reason": "no cuDNN",
 "data": {"errors": {"IOS-both": NaN}}
}
"""
"""File of a step, as an evaluation wrote it before experiments and steps had one ledger."""


def test_a_step_of_an_earlier_evaluation_is_read_and_written_alike(tmp_path):
    ledger = Ledger(tmp_path)
    path = ledger.path("squeezenet_bs1.outputs.untuned")
    path.write_text(EARLIER)
    found = ledger.outcome("squeezenet_bs1.outputs.untuned")
    assert (found.status, found.seconds, found.reason) == (Status.SKIPPED, 1.5, "no cuDNN")
    ledger.write(found)
    again = json.loads(path.read_text())
    assert str(again) == str(json.loads(EARLIER))  # as text, since NaN is no NaN
    assert sorted(path.parent.iterdir()) == [path]


def test_a_damaged_step_names_its_file_and_what_to_do(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.path("one").write_text(EARLIER.replace("skipped", "lost"))
    with pytest.raises(ArtifactError, match=r"one\.json: status is 'lost'.*do the step again"):
        ledger.outcome("one")


def test_a_record_of_another_version_is_refused(tmp_path):
    path = tmp_path / "one.json"
    assert read_noun(Outcome, path, remedy="delete it", version=1) is None
    path.write_text('{"version": 2}')
    with pytest.raises(ArtifactError, match="version is 2; .*; delete it"):
        read_noun(Outcome, path, remedy="delete it", version=1)


def test_what_has_a_result_is_not_measured_again():
    kept, told = {2: 4, 3: -1}, []
    found = run_missing(
        (1, 2, 3),
        read=kept.get,
        run=lambda cell: cell**2,
        write=kept.__setitem__,
        again=lambda result: result < 0,
        listener=told.append,
        go_on="again",
    )
    assert found == (1, 4, 9)
    assert kept == {1: 1, 2: 4, 3: 9}
    assert [(step.number, step.result, step.is_new) for step in told] == [
        (1, None, True),
        (1, 1, True),
        (2, 4, False),
        (3, None, True),
        (3, 9, True),
    ]
