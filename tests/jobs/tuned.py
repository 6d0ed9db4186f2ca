"""A real job of AutoTVM, as small as it gets: six candidates for a network of two convolutions."""

from __future__ import annotations

import json

import tvm

from tests.tuning.autotvm.test_backend import measured
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.core.resources import DeviceKind
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.tune_work import TuneWork

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"  # LLVM need not optimise what runs a few times
CONFIG = {
    "tuning": {"backend": "autotvm", "trials": 2, "repeat": 1, "min_repeat_ms": 1},
    "search": {"max_group_size": 1},
    "build": {"pad_channels": False, "libraries": []},
    "compare": {"rounds": 6},
}
CANDIDATES = 6


def tuned_order(network, folder, *, name="job", device="", key="", **work):
    """The job, its model in files of a folder; ``key`` is that of boards that will do."""
    mod, params = network
    model, values = folder / "net.json", folder / "net.params"
    model.write_text(tvm.ir.save_json(mod))
    values.write_bytes(tvm.runtime.save_param_dict(params))
    kind = DeviceKind.RPC if key else None
    spec = JobSpec(name=name, model=str(model), device=device, kind=kind, key=key)
    work = TuneWork(config=CONFIG, target=TARGET, params=str(values), lanes=1, **work)
    return JobOrder(spec=spec, work=work)


def assert_all_measured_once(log):
    """Each candidate is in the log once, and none failed."""
    candidates = measured(log)
    assert len(candidates) == len(set(candidates)) == CANDIDATES
    assert not any(json.loads(line)["result"][1] for line in log.read_text().splitlines())
