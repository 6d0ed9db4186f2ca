"""Records of MetaSchedule: applied to the kernels that they know; torn lines are set aside."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tvm
from tvm import s_tir
from tvm.s_tir import meta_schedule

import tvm_ios
from tests.relax.driver.test_tune import OWN_KERNELS
from tests.relax.networks import TARGET, Network, answers
from tvm_ios.errors import RecordError
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.tuned_loops import IS_TUNED, RECORD_FILES, digest_in_force, read_records
from tvm_ios.support.exact_bits import exact_bits


def kernel_in(module):
    (found,) = (each for each in module.functions.values() if isinstance(each, tvm.tirx.PrimFunc))
    return found


@pytest.fixture
def network():
    """A convolution with bias and rectifier, a value, and the answer of TVM's virtual machine."""
    network = Network(1, 8, 6, 6)
    mod = network.build(lambda net: net.conv(net.x, 8, 3))
    value = network.value()
    return mod, value, answers(prepare(mod, None, TARGET).module, value)[0]


@pytest.fixture
def folder(network, tmp_path):
    """A database whose one record splits the outermost loop of the last block of that kernel."""
    mod, _, _ = network
    with exact_bits(True):
        kernel = kernel_in(prepare(mod, None, TARGET).module).without_attr("tvm_ios_computes")
    main = kernel.with_attr("global_symbol", "main")
    schedule = s_tir.Schedule(tvm.IRModule({"main": main}))
    (block,) = schedule.get_output_blocks(schedule.get_sblock("root"))
    schedule.split(schedule.get_loops(block)[1], [None, 4])
    database = meta_schedule.database.JSONDatabase(work_dir=str(tmp_path))
    workload = database.commit_workload(tvm.IRModule({"main": main}))
    target = tvm.target.Target(TARGET)
    record = meta_schedule.database.TuningRecord(schedule.trace, workload, [1e-6], target, None)
    database.commit_tuning_record(record)
    assert [len((tmp_path / name).read_text().splitlines()) for name in RECORD_FILES] == [1, 1]
    return tmp_path


def test_a_record_schedules_the_kernel_that_it_is_of(network, folder):
    mod, value, answer = network
    own = prepare(mod, None, TARGET)
    with read_records([folder]).database:
        tuned = prepare(mod, None, TARGET)
    assert IS_TUNED in kernel_in(tuned.module).attrs
    assert IS_TUNED not in kernel_in(own.module).attrs
    assert tuned.extraction.graph == own.extraction.graph
    np.testing.assert_allclose(answers(tuned.module, value)[0], answer, rtol=1e-5, atol=1e-6)


def test_tune_uses_records_and_says_so(network, folder, tmp_path):
    mod, value, answer = network
    given = {"lanes": 1, "database": tmp_path / "prices", "options": OWN_KERNELS}
    model = tvm_ios.tune(mod, None, TARGET, tuning_records=folder, **given)
    assert "records in force: 1 of 1 kernels (context MetaSchedule)" in model.report().as_text()
    with model.executor() as executor:
        executor.run(x=value)
        found = executor.get_output(0).numpy()
    np.testing.assert_allclose(found, answer, rtol=1e-5, atol=1e-6)


def test_torn_lines_are_set_aside_with_a_note(network, folder):
    records = folder / RECORD_FILES[1]
    line = records.read_text()
    records.write_text(f"{line}{json.dumps([7, json.loads(line)[1]])}\n{line[:40]}")
    read = read_records([folder])
    (note,) = read.notes
    assert f"line 2 of {RECORD_FILES[1]} and 1 more in {folder} cannot be read" in note
    assert len(read.database.get_all_tuning_records()) == 1
    with read.database:
        assert digest_in_force()
    assert not digest_in_force()


def test_a_folder_without_records_is_refused(network, tmp_path):
    mod, _, _ = network
    with pytest.raises(RecordError, match="has no tuning records of MetaSchedule: .*workload.json"):
        tvm_ios.tune(mod, None, TARGET, tuning_records=tmp_path / "none")
