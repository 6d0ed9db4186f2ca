"""The pipeline ``tvm_ios`` of Relax, which TVM 0.27 knows by name wherever tvm-ios is installed.

``tvm.compile(mod, target, relax_pipeline="tvm_ios")`` prepares a module, schedules its operators
and lowers it for TVM's virtual machine, which runs stages one after another;
``tvm.relax.get_pipeline("tvm_ios")`` is the pass, such as for ``options={"pipeline": ...}`` of the
TVM backend of ``torch.compile``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["register"]

NAME = "tvm_ios"


def register() -> None:
    """Register the pipeline; TVM calls this when it is imported (entry points ``tvm.backends``)."""
    from tvm.relax import pipeline  # noqa: PLC0415 - TVM 0.17 has another one, and never calls this

    if NAME not in pipeline.PIPELINE_MAP:
        pipeline.register_pipeline(NAME)(_pipeline)


def _pipeline(**options: Any) -> Any:
    """Pass for modules of Relax; options are those of ``ScheduleOperators``, greedy by default."""
    # Whoever imports TVM imports this module, and few of them schedule anything.
    import tvm  # noqa: PLC0415

    from tvm_ios.passes.schedule_operators import ScheduleOperators  # noqa: PLC0415
    from tvm_ios.relax.schedules.gpu import with_default_loops  # noqa: PLC0415
    from tvm_ios.runtime.base.device import is_gpu_target  # noqa: PLC0415

    chosen = {"scheduler": "greedy"} | options

    def run(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        target = tvm.target.Target.current(allow_none=True)
        schedule: Any = ScheduleOperators(**{"target": target} | chosen)
        staged = schedule(mod)
        if target is not None and is_gpu_target(target):
            staged = with_default_loops(staged, target)
        return tvm.relax.get_pipeline("default_build")(staged)

    return tvm.transform.module_pass(run, opt_level=0, name="tvm_ios.pipeline")
