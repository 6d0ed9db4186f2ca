"""Calls of ``tune`` go to another process as they are."""

from __future__ import annotations

import io

import numpy as np
import tvm

from tests.driver.test_tune import QUICK
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.later.job import read_job, write_job
from tvm_ios.support.time_budget import TimeBudget


def test_a_call_that_was_read_is_an_equal_call(net, fresh_cache, monkeypatch):
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    call = TuneCall(
        mod=net.mod,
        params=net.params,
        lanes=1,
        options=QUICK,
        time_budget=TimeBudget(9.0),
        progress=print,
    )
    file = io.BytesIO()
    write_job(call, file)
    file.seek(0)
    read = read_job(file)
    assert tvm.ir.structural_equal(read.mod, call.mod)
    for name, value in net.params.items():
        np.testing.assert_array_equal(read.params[name].numpy(), value.numpy())
    assert (read.options, read.time_budget.limit_s, read.progress) == (QUICK, 9.0, None)
    assert KeptCall.of(read).key == KeptCall.of(call).key != ""
