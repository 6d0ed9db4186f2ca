"""Calls of ``tune`` as bytes, from the process that makes them to the one that goes on with them.

Weights go as they lie in memory: as constants of a module in JSON they would take seconds.
"""

from __future__ import annotations

import pickle
from typing import IO

import numpy as np
import tvm

from tvm_ios.driver.kept.tune_call import TuneCall, budget_of_call

__all__ = ["read_job", "write_job"]

_AS_THEY_ARE = (
    *("target", "tuning", "tuning_records", "lanes", "database", "decisions", "inputs", "options"),
)
"""Arguments of a call that Python can store."""


def write_job(call: TuneCall, file: IO[bytes]) -> None:
    """Write a call, but for its listener; its time begins anew where it is read."""
    params = call.params
    arrays = None if params is None else {name: _numpy(each) for name, each in params.items()}
    given = {name: getattr(call, name) for name in _AS_THEY_ARE}
    job = (tvm.ir.save_json(call.mod), arrays, call.time_budget.limit_s, given)
    pickle.dump(job, file, protocol=pickle.HIGHEST_PROTOCOL)


def read_job(file: IO[bytes]) -> TuneCall:
    """Read the call that this user's process wrote."""
    text, arrays, limit_s, given = pickle.load(file)  # noqa: S301 - nobody else holds the file
    return TuneCall(
        mod=tvm.ir.load_json(text),
        params=None if arrays is None else {name: tvm.nd.array(arrays[name]) for name in arrays},
        time_budget=budget_of_call(limit_s),
        **given,
    )


def _numpy(array: object) -> np.ndarray:
    return array.numpy() if isinstance(array, tvm.nd.NDArray) else np.asarray(array)
