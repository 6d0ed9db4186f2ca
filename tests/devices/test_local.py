"""The CPU of this machine as a device: lanes, sessions, and what is refused."""

from __future__ import annotations

import pytest
import tvm

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.devices.local import LocalCpu
from tvm_ios.errors import ExecutionError, OptionError
from tvm_ios.host import default_lanes, processor_name
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.search.baselines import sequential_schedule


def test_lanes_are_the_cores_where_omitted() -> None:
    assert LocalCpu().require_lanes(None) == default_lanes()
    assert LocalCpu().require_lanes(1) == 1


@pytest.mark.parametrize("lanes", [0, -1, True, 1.0, "2", 10**6])
def test_lanes_nobody_can_honour_are_refused(lanes) -> None:
    with pytest.raises(OptionError, match="lanes is"):
        LocalCpu().require_lanes(lanes)


def test_it_is_what_a_report_speaks_of_anyway() -> None:
    assert LocalCpu().name == processor_name()
    assert LocalCpu().notes == ()
    assert tvm.target.Target(LocalCpu().target).kind.name == "llvm"


def test_libraries_of_other_devices_are_refused_on_it() -> None:
    with (
        LocalCpu().open() as session,
        pytest.raises(ExecutionError, match="for cuda targets"),
    ):
        session.libraries().named(CudnnLibrary(tf32=False).name)


@pytest.mark.slow
def test_stages_and_models_run_in_this_process(branching) -> None:
    built = build_model(*branching, "llvm -opt-level=0")
    staged = built.kernels.staged
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    with LocalCpu().open() as session:
        path = session.export(built.kernels)
        assert path == built.kernels.path
        runner = session.stage_runner(1)
        views = [placement.view for placement in staged.placements]
        number = runner.add_library(lambda: path, staged.graph, staged.params, views)
        assert runner.prepare([[(number, 0)]]).time_ns(2) > 0
        runner.close()
        executor = session.executor(model)
        assert executor.time_ns(2) > 0
        executor.close()
        assert session.notes() == ()
