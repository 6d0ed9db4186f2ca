"""Export of a model to one file with kernels, parameters, plan and native executor; its loading.

The file is an ordinary TVM library (stock ``GraphModule`` runs it too, where no kernel was left to
an operator library). The plan, what the file was made for, and what onnxruntime runs of the model,
lie in a footer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.errors import ArtifactError, HostError, PlanError
from tvm_ios.onnx.rest import Rest
from tvm_ios.plan.image import PLAN_VERSION, ProgramFacts, image_bytes
from tvm_ios.plan.image_reader import parameters_of, read_image
from tvm_ios.plan.plan import ALIGNMENT_BYTES, ExecutionPlan
from tvm_ios.plan.verify import verify_plan
from tvm_ios.runtime.artifact.factory import KernelFactory
from tvm_ios.runtime.artifact.footer import Footer, append_footer, read_footer
from tvm_ios.runtime.artifact.identity import ArtifactIdentity, needed_features, read_processor
from tvm_ios.runtime.artifact.new_artifact import new_artifact
from tvm_ios.runtime.artifact.plan_executor import plan_executor
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.native_runtime import LANE_EXECUTOR
from tvm_ios.runtime.base.tvm_names import IS_FFI, data_address, empty, linkers
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios.runtime.cuda.native_streams import STREAMS_SOURCE
from tvm_ios.runtime.gpu.tvm_runtime import require_tvm_runtime
from tvm_ios.runtime.libraries.known import find_library, read_call
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.processor import ThisProcessor
from tvm_ios.runtime.libraries.protocol import CallProgram, FactStore

__all__ = ["export_artifact", "kernels_in", "load", "parameters_in", "plan_in"]


def export_artifact(
    factory: KernelFactory,
    plan: ExecutionPlan,
    path: str | Path,
    story: ModelStory | None = None,
    store: FactStore | None = None,
    rest: Rest | None = None,
) -> None:
    """Write kernels, parameters, plan and native executor into one file.

    Kernels and parameters are as ``relay.build`` returned them, or an
    :class:`~.factory.ExecutableFactory`. The path ends in ``.so``; a file
    there is replaced when all is done. Facts that operator libraries find out are added to the
    store.
    """
    verify_plan(plan)
    path = Path(path)
    addons = [str(LANE_EXECUTOR.as_object())]
    on_cpu = not is_gpu_target(_device_target(factory.target))
    if on_cpu:
        plan = _completed(plan, store)
    else:
        addons.append(str(STREAMS_SOURCE.as_object()))
    identity = _identity(factory.target, plan)
    with new_artifact(path) as library:
        objects, program = _native_code(plan)
        addons += map(str, objects)
        factory.export_library(str(library), fcompile=linkers().create_shared, addons=addons)
        options = LaneOptions()
        params = factory.get_params()
        facts = ProgramFacts(
            parameters=frozenset(map(str, params)),
            features=identity.features,
            refused=_refusal(plan, rest, on_cpu=on_cpu, makes_calls=program is not None),
            call_function="" if program is None else program.function,
            calls=() if program is None else program.calls,
            is_ffi=IS_FFI,
            tasks_per_lane=options.tasks_per_lane,
            spin_ns=options.spin_us * 1000,
        )
        values = _values(plan, params) if IS_FFI else ()
        append_footer(library, identity, story, image_bytes(plan, facts), rest, values)


def load(
    path: str | Path,
    device: Any = None,
    lanes: int | None = None,
    *,
    options: LaneOptions | None = None,
    any_processor_model: bool = False,
    cuda_graph: bool = True,
    database: FactStore | None = None,
) -> MultiStreamGraphModule | CudaGraphModule:
    """Load a model from the file that :func:`export_artifact` wrote.

    A file of one model in several shapes gives a :class:`~tvm_ios.ShapesModule`.

    Parameters
    ----------
    path
        The file.
    device
        ``tvm.cpu()``, or a GPU such as ``tvm.cuda(0)`` if the file was made for one; may be
        omitted.
    lanes
        Threads, the caller's included; as many as the plan has lanes where omitted. Not for GPUs,
        whose streams are those of the plan.
    options
        How lanes share work and wait; not for GPUs.
    any_processor_model
        True accepts a file tuned on another processor model, if this one has all its instruction
        sets.
    cuda_graph
        On a GPU, True replays a run in one launch and False issues every kernel.
    database
        A profile database with facts that operator libraries found out of their calls, such as
        algorithms. What neither it nor the file holds for this device is found out at each load.

    Raises
    ------
    ArtifactError
        If the file is unreadable, damaged, or made for another processor, TVM or plan version.
    OptionError
        If the device is another one than the file was made for, there are more lanes than cores, or
        lanes of a GPU.
    HostError
        If there is no driver, no such GPU, one that does not run this code, or an operator library
        of the file is missing, or onnxruntime, where that runs the rest of the model.
    ExecutionError
        If there is too little memory on the GPU.
    """
    path = Path(path)
    footer = read_footer(path)
    identity = footer.identity
    try:
        identity.require_tvm(tvm.__version__)
        target = tvm.target.Target(identity.target)
        any_model = any_processor_model or is_gpu_target(target)
        identity.require_fit(read_processor(), any_model=any_model)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from None
    plan = plan_in(path, footer)
    library = kernels_in(path, target)
    return plan_executor(
        plan,
        library,
        parameters_in(library, path, footer),
        target,
        device=device,
        lanes=lanes,
        options=options,
        cuda_graph=cuda_graph,
        store=database,
        rest=footer.rest,
    )


def read_plan(path: Path) -> ExecutionPlan:
    """The plan inside a file, verified."""
    return plan_in(path, read_footer(path))


def plan_in(path: Path, footer: Footer) -> ExecutionPlan:
    """The plan in a footer, verified; the path is for messages."""
    try:
        plan = read_image(footer.image, read_call)
        verify_plan(plan)
    except PlanError as error:
        raise ArtifactError(f"{path}: its execution plan cannot be read: {error}") from error
    return plan


def kernels_in(path: Path, target: tvm.target.Target) -> KernelLibrary:
    """Loaded kernels of an exported file, with the executor in it; HostError as :func:`load`."""
    if is_gpu_target(target):
        require_tvm_runtime()
    return KernelLibrary(path)


def parameters_in(library: KernelLibrary, path: Path, footer: Footer) -> dict[str, Any]:
    """Parameters in an exported file, by name: in its library, or, with TVM-FFI, behind that."""
    if not IS_FFI:
        return {str(name): array for name, array in library.module["get_graph_params"]().items()}
    if footer.parameters is None:
        return {}
    at, _ = footer.parameters
    arrays = {}
    with path.open("rb") as file:
        for name, tensor in parameters_of(footer.image, plan_in(path, footer)):
            arrays[name] = empty(tensor.shape, tensor.dtype, tvm.cpu())
            file.seek(at)
            file.readinto(_memory_of(arrays[name], tensor.size_bytes))
            at += tensor.size_bytes + -tensor.size_bytes % ALIGNMENT_BYTES
    return arrays


def _memory_of(array: Any, size_bytes: int) -> ctypes.Array[ctypes.c_char]:
    """The values of an array on the CPU as bytes that can be written."""
    return (ctypes.c_char * size_bytes).from_address(data_address(array))


def _values(plan: ExecutionPlan, params: Mapping[str, Any]) -> list[memoryview]:
    """Memory of the parameters among the inputs of a plan, in their order."""
    by_name = {str(name): array for name, array in params.items()}
    return [
        memoryview(_memory_of(by_name[entry.name], plan.tensors[entry.tensor].size_bytes))
        for entry in plan.inputs
        if entry.name in by_name
    ]


def _completed(plan: ExecutionPlan, store: FactStore | None) -> ExecutionPlan:
    """The plan with library calls made ready for this processor; refused calls go back to kernels.

    A single unready call would keep C programs from all library calls. Without a library on this
    machine the plan stays as it is.
    """
    try:
        with OpenLibraries(ThisProcessor(), target_kind="llvm", store=store) as libraries:
            return libraries.complete(plan)
    except HostError:
        return plan


def _refusal(plan: ExecutionPlan, rest: Rest | None, *, on_cpu: bool, makes_calls: bool) -> str:
    """Reason why only Python can run a plan; empty where C can."""
    if rest is not None:
        return rest.text
    if not on_cpu:
        return "it runs on a GPU, whose streams are issued from Python"
    if makes_calls:
        return ""
    libraries = {launch.call.library.title for launch in plan.launches if launch.call is not None}
    return f"{' and '.join(sorted(libraries))} computes operators of it" if libraries else ""


def _identity(target: Any, plan: ExecutionPlan) -> ArtifactIdentity:
    here = read_processor()
    target = _device_target(target)
    host = (target.host or tvm.target.Target("llvm")) if is_gpu_target(target) else target
    return ArtifactIdentity(
        plan_version=PLAN_VERSION,
        tvm_version=tvm.__version__,
        target=str(target),
        architecture=here.architecture,
        processor_model=here.model,
        features=needed_features(tvm.target.codegen.llvm_get_cpu_features(host)),
        lanes=plan.lanes,
    )


def _device_target(target: Any) -> tvm.target.Target:
    """The only target of a factory, which holds it in a list or by device type."""
    if isinstance(target, tvm.target.Target):
        return target
    targets = target.values() if hasattr(target, "values") else target
    return next(tvm.target.Target(entry) for entry in targets)


def _native_code(plan: ExecutionPlan) -> tuple[list[Path], CallProgram | None]:
    """Object files of the operator libraries of a plan, and the calls of the only one for C.

    None where no library or several compute, and where only Python makes the calls ready.
    """
    calls = [launch.call for launch in plan.launches if launch.call is not None]
    found = map(find_library, sorted({call.library.key for call in calls}))
    libraries = [library for library in found if library is not None]
    objects = [library.native_object() for library in libraries]
    program = None
    if len(libraries) == 1 and objects[0] is not None:
        program = libraries[0].program([call.descriptor for call in calls])
    return [path for path in objects if path is not None], program
