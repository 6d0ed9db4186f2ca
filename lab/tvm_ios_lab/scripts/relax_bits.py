"""Bits of concurrent plans of whole networks against TVM 0.27's virtual machine.

Both run the same kernels, which are ours, on a drawn image: the machine one after another, our
lanes as greedy and as a search with drawn prices place them, with delays before every launch and
with memory that is spoiled before every run. A network is a name of the catalogue, an ONNX file, or
a folder of ``peers.export`` or ``unseen.make``, whose outputs by another framework are compared,
too. Networks of earlier runs stay in the file::

    TVM_IOS_TVM=path TVM_NUM_THREADS=2 python -m tvm_ios_lab.scripts.relax_bits NETWORK… [--all]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.errors import TvmIosError
from tvm_ios.models import MODEL_NAMES
from tvm_ios.relax.target import host_target
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.runtime.cpu.lane_executor import executor_here
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.peers.network import read_case, relative_error
from tvm_ios_lab.places import RESULTS

OUTPUT = RESULTS / "relax_bits.json"
LANES, RUNS = 2, 3


class DrawnPrices:
    """Prices of stages that were drawn: more groups at once often pay, and nothing is measured."""

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Nanoseconds of each stage: its longest group, and 50 for each group."""
        chooser = random.Random(len(graph))
        alone_ns = [chooser.randrange(1, 1000) for _ in range(len(graph))]
        return [
            max(sum(alone_ns[operator] for operator in group) for group in stage.groups)
            + 50 * len(stage.groups)
            for stage in stages
        ]


def _searched(graph: OperatorGraph) -> InterOpSchedule:
    options = SearchOptions(max_block_states=500, max_block_transitions=20_000)
    return search_ios(graph, DrawnPrices(), options).schedule


SCHEDULERS: dict[str, Callable[[OperatorGraph], InterOpSchedule]] = {
    "greedy": greedy_schedule,
    "drawn prices": _searched,
}


def main() -> None:
    """Compare, print a line for each network, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--all", action="store_true", help="with all networks of the catalogue")
    options = parser.parse_args()
    known = json.loads(OUTPUT.read_text("utf-8")) if OUTPUT.exists() else {}
    for given in (*options.networks, *(MODEL_NAMES if options.all else ())):
        name = Path(given).name.removesuffix(".onnx")
        origin = Measurement.here(program_command("tvm_ios_lab.scripts.relax_bits")).origin()
        try:
            found = _compared(given)
        except TvmIosError as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        print(name, found, flush=True)
        known[name] = origin | found
        OUTPUT.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", "utf-8")


def _compared(given: str) -> dict[str, Any]:
    """Record of a network: its operators, its outputs, and how its plans differ from the machine.

    With the error beside another framework's outputs where the folder has them.
    """
    folder = Path(given)
    case = read_case(folder) if folder.is_dir() else None
    source = ModelSource.of(given if case is None else str(folder / "network.onnx"))
    model = build_model(source.mod, source.params, host_target())
    sequential = lower_schedule(model, _searched(model.graph), lanes=1)
    params = sequential.kernels.params
    values = sample_inputs(sequential.plan, params)
    if case is not None:
        values[case.network.input] = case.input
    wanted = _machine(model, values, params)
    plans = {name: _differing(model, values, wanted, make) for name, make in SCHEDULERS.items()}
    found: dict[str, Any] = {"operators": len(model.graph), "plans": plans}
    found["values"] = sum(each.size for each in wanted)
    if case is not None:
        found["error"] = relative_error(wanted[0].astype("float32"), case.reference)
    return found


def _machine(model: BuiltModel, values: dict[str, Any], params: Any) -> list[np.ndarray]:
    """Outputs of TVM's virtual machine on the model's kernels."""
    module = model.prepared.module
    machine = relax.VirtualMachine(tvm.compile(module, target=host_target()), tvm.cpu())
    names = [each.name for each in module["main"].params]
    given = [params[each] if each in params else tvm.runtime.tensor(values[each]) for each in names]
    result = machine["main"](*given)
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [each.numpy() for each in outputs]


def _differing(
    model: BuiltModel,
    values: dict[str, Any],
    wanted: list[np.ndarray],
    make: Callable[[OperatorGraph], InterOpSchedule],
) -> dict[str, int]:
    """Stages, widest stage, and how many bytes of all runs of a plan were not the machine's."""
    schedule = make(model.graph)
    compiled = lower_schedule(model, schedule, lanes=LANES)
    memory = PlanMemory(compiled.plan, compiled.kernels.params)
    for entry in compiled.plan.inputs:
        if entry.name in values:
            memory.array(entry.tensor).copyfrom(values[entry.name])
    options = LaneOptions(oversubscribe=True, jitter_seed=1)
    executor = executor_here(
        compiled.plan, compiled.kernels.library, memory, options=options, poison=True
    )
    differing = 0
    try:
        for _ in range(RUNS):
            executor.run()
            for tensor, bits in zip(compiled.plan.outputs, wanted, strict=True):
                got = memory.array(tensor).numpy()
                differing += int((got.view("uint8") != bits.view("uint8")).sum())
    finally:
        executor.close()
    return {
        "stages": len(schedule.stages),
        "most groups": max(len(stage.groups) for stage in schedule.stages),
        "bytes that differ": differing,
    }


if __name__ == "__main__":
    main()
