"""Ansor's tasks of a model: the fused functions that will be scheduled, each workload once.

Kernels keep the layouts they have untuned: blocked data and constant weights. So the tuned graph is
the untuned one, with its views and merges, and every task may keep TVM's schedule where that is
faster. TVM's tutorials use NHWC, and weights laid out anew for each schedule, which takes the graph
apart: that pass forgets where fusion was stopped, and concatenations become copies.

Tasks are read from prepared modules. ``auto_scheduler.extract_tasks`` would simplify inside their
functions once more, and records of such tasks would never be looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import auto_scheduler, relay
from tvm.auto_scheduler.compute_dag import LayoutRewriteOption
from tvm.auto_scheduler.relay_integration import TracingEnvironment, TracingMode

from tvm_ios.errors import TuningError
from tvm_ios.relay import is_prepared, prepare
from tvm_ios.relay.context import ANSOR_SWITCH, pass_context, quiet_lookups, reason_of, tvm_pipeline
from tvm_ios.relay.transforms.pipeline import UNSHARER

__all__ = [
    "KernelTask",
    "ansor_context",
    "extract_tasks",
    "hardware_params",
    "workloads_of",
]

LAYOUT_REWRITE = "AutoSchedulerLayoutRewrite"
"""Pass that lays weights out as the best records want them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTask:
    """A task of Ansor, and how often the model runs its kernel."""

    task: auto_scheduler.SearchTask
    weight: int

    @property
    def workload(self) -> str:
        """Key of the task's records."""
        return str(self.task.workload_key)

    @property
    def flop(self) -> float:
        """Floating-point operations of one run."""
        return float(self.task.compute_dag.flop_ct)

    @property
    def name(self) -> str:
        """Fused operators, and shapes of the first two tensors they read."""
        operators = str(self.task.desc).rpartition("fused_")[2].replace("nn_", "")
        shapes = [
            "x".join(str(int(extent)) for extent in tensor.shape)
            for tensor in list(self.task.compute_dag.tensors)[:2]
        ]
        return f"{operators.replace('contrib_', '')} {' * '.join(shapes)}"


@contextmanager
def ansor_context() -> Iterator[None]:
    """Context in which TVM asks Ansor for schedules and the graph stays the same."""
    with quiet_lookups(), pass_context(disabled=[LAYOUT_REWRITE], config={ANSOR_SWITCH: True}):
        yield


def extract_tasks(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: tvm.target.Target,
    *,
    extra_modules: Sequence[tvm.IRModule] = (),
    cores: int,
) -> tuple[KernelTask, ...]:
    """Tasks of a user's model or a prepared one, the most work first; the device may be absent.

    Parameters
    ----------
    extra_modules
        Further modules, such as merged stages; tasks only of these count as often as they run.
    cores
        Number of cores that a kernel is tuned for, on a CPU.
    """
    uses: Counter[str] = Counter()
    names: dict[str, str] = {}
    with ansor_context():
        fused = mod if is_prepared(mod) else prepare(mod, params or None, target).module
        uses.update(workloads_of(fused, target, names))
        for module in extra_modules:
            extra = module if is_prepared(module) else prepare(module, None, target).module
            for workload, count in workloads_of(extra, target, names).items():
                uses.setdefault(workload, count)
    hardware = hardware_params(target, cores)
    tasks = [
        KernelTask(
            task=auto_scheduler.SearchTask(
                workload_key=workload,
                target=target,
                hardware_params=hardware,
                layout_rewrite_option=LayoutRewriteOption.NO_REWRITE,
                desc=names[workload],
            ),
            weight=count,
        )
        for workload, count in uses.items()
    ]
    return tuple(sorted(tasks, key=lambda one: -one.weight * one.flop))


def hardware_params(target: tvm.target.Target, cores: int) -> auto_scheduler.HardwareParams:
    """Hardware parameters for Ansor: of a CPU with so many cores, or of a GPU, absent or not."""
    if target.kind.name == "llvm":
        return auto_scheduler.HardwareParams(num_cores=cores, target=target)
    if tvm.device(str(target.kind.name)).exist:
        return auto_scheduler.HardwareParams(target=target)
    warp = _limit(target, "thread_warp_size", 32)
    # TVM asks the device for these, and here there is none.
    return auto_scheduler.HardwareParams(
        num_cores=-1,
        vector_unit_bytes=16,
        cache_line_bytes=64,
        max_shared_memory_per_block=_limit(target, "max_shared_memory_per_block", 48 << 10),
        max_local_memory_per_block=2**31 - 1,
        max_threads_per_block=_limit(target, "max_threads_per_block", 1024),
        max_vthread_extent=warp // 4,
        warp_size=warp,
    )


def _limit(target: tvm.target.Target, name: str, default: int) -> int:
    return int(target.attrs.get(name, default))


def workloads_of(
    fused: tvm.IRModule, target: tvm.target.Target, names: dict[str, str] | None = None
) -> Counter[str]:
    """Number of runs of each workload with a reduction in a prepared module, under Ansor's context.

    ``names`` gets a name for each workload that has none.
    """
    environment = TracingEnvironment(TracingMode.EXTRACT_COMPLEX_TASK_ONLY)
    # As extract_tasks does, but for the pass that rewrites what is inside of fused functions.
    with tvm_pipeline(disabled=[UNSHARER]), environment:
        try:
            relay.vm.VMCompiler().lower(fused, target)
        except tvm.TVMError as error:
            raise TuningError(
                f"TVM cannot lower this model for target {str(target)!r}: {reason_of(error)}; "
                "see whether tvm.relay.build accepts it"
            ) from error
    uses: Counter[str] = Counter()
    for workload, (count, functions) in environment.wkl_key_to_weight.items():
        uses[str(workload)] = int(count)
        if names is not None:
            names.setdefault(str(workload), str(min(functions)))
    return uses
