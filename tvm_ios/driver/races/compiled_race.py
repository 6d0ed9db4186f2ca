"""Models that were compiled before, timed against each other: what ``compare`` and ``bench`` share.

Free of TVM until a race begins, so that a file that is none is told before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.driver.races.file_process import FileProcess, is_of_relax
from tvm_ios.driver.run_inputs import run_inputs
from tvm_ios.errors import OptionError
from tvm_ios.host import core_to_core_ns
from tvm_ios.measure.compare import CompareOptions, compare
from tvm_ios.measure.comparison import Comparison
from tvm_ios.runtime.artifact.footer import read_footer

if TYPE_CHECKING:
    from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
    from tvm_ios.runtime.cuda.module import CudaGraphModule

__all__ = ["lanes_of_files", "race_files"]


def lanes_of_files(files: Mapping[str, Path]) -> int:
    """The most lanes that one of the models was compiled for; each is checked."""
    first: dict[Path, str] = {}
    for name, path in files.items():
        other = first.setdefault(path.resolve(), name)
        if other != name:
            raise OptionError(f"{other} and {name} are one file; give it once")
    return max(read_footer(path).identity.lanes for path in files.values())


def race_files(
    files: Mapping[str, Path],
    options: CompareOptions,
    *,
    lanes: int | None = None,
    any_processor_model: bool = False,
) -> Comparison:
    """Time compiled models on made-up inputs, one sample of each in every round.

    The files have the names that the result has; lanes and processor are as for
    :func:`tvm_ios.load`. Files of two TVMs are in processes of their own, and take turns.
    """
    if len({is_of_relax(path) for path in files.values()}) > 1:
        return _race_processes(files, options, lanes, any_processor_model=any_processor_model)
    from tvm_ios.runtime.artifact.artifact import load  # noqa: PLC0415 - TVM comes in here

    with ExitStack() as stack:
        executors: dict[str, MultiStreamGraphModule | CudaGraphModule] = {}
        for name, path in files.items():
            executors[name] = executor = load(
                path, lanes=lanes, any_processor_model=any_processor_model
            )
            stack.enter_context(executor)
            executor.run(**run_inputs(executor.plan, executor.input_names, None))
        return compare(
            {name: executor.time_ns for name, executor in executors.items()},
            options=options,
            waits=[executor.waited_ns for executor in executors.values()],
            ping_pong_ns=max(executors.values(), key=lambda each: each.plan.lanes).ping_pong_ns,
        )


def _race_processes(
    files: Mapping[str, Path],
    options: CompareOptions,
    lanes: int | None,
    *,
    any_processor_model: bool,
) -> Comparison:
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(
                FileProcess(path, lanes=lanes, any_processor_model=any_processor_model)
            )
            for name, path in files.items()
        }
        return compare(
            {name: process.time_ns for name, process in processes.items()},
            options=options,
            waits=[process.waited_ns for process in processes.values()],
            ping_pong_ns=lambda: core_to_core_ns() or 0.0,
        )
