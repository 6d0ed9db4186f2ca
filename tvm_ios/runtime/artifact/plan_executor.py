"""The executor of a plan, on the device that its kernels are compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_ios.errors import OptionError
from tvm_ios.onnx.rest import Rest
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.device import is_gpu_target, require_cpu, require_cuda
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.cpu.shapes_module import ShapesModule
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["plan_executor"]


def plan_executor(
    plan: ExecutionPlan,
    library: KernelLibrary,
    params: Mapping[str, Any],
    target: Any,
    *,
    device: Any,
    lanes: int | None,
    options: LaneOptions | None,
    cuda_graph: bool,
    store: FactStore | None,
    rest: Rest | None,
) -> MultiStreamGraphModule | CudaGraphModule:
    """Executor of a plan, and of the rest behind it; arguments are those of ``load``."""
    module: MultiStreamGraphModule | CudaGraphModule
    if is_gpu_target(target):
        ordinal = require_cuda(device)
        if lanes is not None or options is not None:
            raise OptionError(
                f"lanes and options are for CPUs; this model runs on {plan.lanes} streams of a "
                "GPU, as it was compiled; leave them out, or compile it with other lanes"
            )
        module = CudaGraphModule(
            plan,
            library,
            params,
            device=ordinal,
            cuda_graph=cuda_graph,
            arch=str(target.attrs["arch"]),
            store=store,
        )
    else:
        require_cpu(device)
        kind = ShapesModule if plan.is_of_shapes else MultiStreamGraphModule
        module = kind(plan, library, params, lanes=lanes, options=options, store=store)
    if rest is not None:
        module.add_rest(rest)
    return module
