"""What is known of a model's tasks: looked up in logs for one target, in each form of the model."""

from __future__ import annotations

import json

import pytest
import tvm

from tvm_ios.profile.build_candidates import Changed, ModelChange
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.autotvm.tasks import extract_tasks
from tvm_ios.tuning.known_tasks import known_tasks
from tvm_ios.tuning.records.record_index import RecordIndex

pytestmark = pytest.mark.slow  # TVM lowers the model for each question

TARGET = tvm.target.Target("llvm -mcpu=core-avx2")


def line(task, *, target=TARGET, error=0, index=0):
    """A record of some candidate of a task, as AutoTVM writes it."""
    return json.dumps(
        {
            "input": [str(target), task.task.name, task.task.args, {}],
            "config": {
                "index": index,
                "code_hash": None,
                "entity": [["tile_c", "sp", [-1, 1 << index]]],
            },
            "result": [[1e9 if error else 1e-3], error, 0.1, 1.0],
            "version": 0.2,
            "tvm_version": "0.17.dev0",
        }
    )


@pytest.fixture(scope="module")
def tasks(fork):
    return extract_tasks([fork[0]], TARGET)


@pytest.fixture
def known(fork, tmp_path):
    """What logs of these lines tell of the fork."""

    def ask(*lines, tuner=RecordFormat.AUTOTVM, target=TARGET, changes=()):
        log = tmp_path / "net.log"
        log.write_text("".join(f"{each}\n" for each in lines))
        return known_tasks(*fork, target, tuner, RecordIndex.of([log]), changes=changes)

    return ask


def test_a_record_of_every_task_is_everything(known, tasks, tmp_path):
    found = known(*map(line, tasks), line(tasks[0], index=1))
    assert found.is_complete
    assert found.logs == (tmp_path / "net.log",)
    assert [task.candidates_in(tmp_path / "net.log") for task in found.tasks] == [2, 1]
    assert found.as_text() == "records known for 2 of 2 tasks of autotvm (logs: 1)"


def test_one_record_too_few_is_not(known, tasks):
    found = known(line(tasks[0]))
    assert not found.is_complete
    assert [task.name for task in found.missing] == [tasks[1].name]
    assert found.as_text().endswith(f"tasks of autotvm (logs: 1); without: {tasks[1].name}")


def test_failed_candidates_other_targets_and_tuners_are_no_knowledge(known, tasks, tmp_path):
    failed = line(tasks[0], error=4, index=1)
    found = known(line(tasks[0]), failed, line(tasks[1], error=4))
    assert len(found.missing) == 1
    # A tuner counts them all the same.
    assert [task.candidates_in(tmp_path / "net.log") for task in found.tasks] == [2, 1]
    # One that is in the log twice is one candidate, and one that ran once did run.
    found = known(failed, line(tasks[0], error=4), line(tasks[0]), failed)
    assert [task.candidates_in(tmp_path / "net.log") for task in found.tasks] == [2, 0]
    assert sum(found.tasks[0].records[0].failed.values()) == 1
    assert len(known(*map(line, tasks), target=tvm.target.Target("llvm")).missing) == 2
    ansor = known(*map(line, tasks), tuner=RecordFormat.AUTO_SCHEDULER)
    assert ansor.tasks
    assert ansor.missing == ansor.tasks
    assert ansor.logs == ()


def test_the_form_that_a_build_may_choose_counts_as_well(branching, fork, tasks, tmp_path):
    def ask(*changes):
        index = RecordIndex.of([log])
        return known_tasks(*branching, TARGET, RecordFormat.AUTOTVM, index, changes=changes)

    log = tmp_path / "net.log"
    log.write_text("".join(f"{line(task)}\n" for task in tasks))
    other = ModelChange(
        name="the fork",
        without="as it is",
        phase="fork",
        rewrite=lambda candidate, target: (
            None if candidate.changes else Changed(fork[0], "changed")
        ),
    )
    as_it_is = ask()
    assert 0 < len(as_it_is.missing) < len(as_it_is.tasks)
    found = ask(other)
    assert found.is_complete
    assert len(found.tasks) == len(tasks)
    # Of two that are incomplete, the one that more is known of.
    log.write_text(line(tasks[0]) + "\n")
    assert len(ask(other).tasks) == len(tasks)


def test_a_model_without_tasks_is_not_known(tmp_path):
    from tvm import relay

    data = relay.var("data", shape=(1, 4))
    mod = tvm.IRModule.from_expr(relay.nn.relu(data))
    log = tmp_path / "net.log"
    log.touch()
    found = known_tasks(mod, {}, TARGET, RecordFormat.AUTOTVM, RecordIndex.of([log]))
    assert (found.tasks, found.is_complete) == ((), False)
