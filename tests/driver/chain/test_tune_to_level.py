"""Service levels of models: what logs hold decides which slices of tuning there are."""

from __future__ import annotations

import json

import pytest
import tvm

from tvm_ios.devices.local import LocalCpu
from tvm_ios.driver.chain import tune_to_level as module
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.tune_to_level import LevelRequest, tune_to_level, what_is_known
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.options import DEFAULTS
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.autotvm.tasks import extract_tasks
from tvm_ios.tuning.options import TuningOptions

TARGET = tvm.target.Target("llvm -mcpu=core-avx2")
SLOW = Latency(median_ms=9.0, low_ms=9.0, high_ms=9.0, confidence=0.95, rounds=6)


@pytest.mark.slow
@pytest.mark.parametrize(("holder", "slices"), [("other", [0, 1, 2, 4, 8]), ("mine", [0, 4, 8])])
def test_a_slice_is_left_out_where_the_log_that_goes_on_has_its_candidates(
    fork, tmp_path, monkeypatch, holder, slices
):
    log, other = tmp_path / "mine.log", tmp_path / "cache" / "other.log"
    other.parent.mkdir()
    monkeypatch.setattr(module, "logs_in", lambda: tuple(other.parent.glob("*.log")))
    records = [
        {
            "input": [str(TARGET), task.task.name, task.task.args, {}],
            "config": {
                "index": index,
                "code_hash": None,
                "entity": [["tile_c", "sp", [-1, 1 << index]]],
            },
            "result": [[1e-3], 0, 0.1, 1.0],
            "version": 0.2,
            "tvm_version": "0.17.dev0",
        }
        for task in extract_tasks([fork[0]], TARGET)
        for index in range(2)
    ]
    held = {"mine": log, "other": other}[holder]
    held.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    autotvm, source = RecordFormat.AUTOTVM, ModelSource.of(fork)
    known = what_is_known(source, TARGET, LocalCpu(), autotvm, DEFAULTS, log)
    assert known.logs == (held,)
    request = LevelRequest(sla_ms=5.0, tuner=autotvm, kernels=TuningOptions(trials=8), log=log)
    built = []

    def front_door(kernels, **_others):
        built.append(kernels.trials or 0)

    tune_to_level(request, known, front_door, lambda _model: SLOW, budget=TimeBudget())
    assert built == slices
