"""Models of PyTorch, as Relay, through TVM's importer of TorchScript traces."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import tvm
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.relay.context import reason_of
from tvm_ios.relay.frontends.torch_converters import converters
from tvm_ios.relay.frontends.torch_operators import missing_operators
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.torch_model import example_tensors, require_model, torch_here

__all__ = [
    "change_in_place",
    "from_torch",
    "from_trace",
    "input_names",
    "traced",
    "training_operator",
    "with_constants",
]

_IN_PLACE = re.compile(r"(\w+::\w*[^_])_")
_WRITES = {
    "aten::__iand__": "aten::bitwise_and_",
    "aten::__ilshift__": "aten::bitwise_left_shift_",
    "aten::__ior__": "aten::bitwise_or_",
    "aten::__irshift__": "aten::bitwise_right_shift_",
    "aten::__ixor__": "aten::bitwise_xor_",
}
_QUANTISED = ("quantized::", "aten::quantize_per_")
"""Beginnings of names of operators on tensors that know their scales."""
# The last input of these says whether they draw, or update statistics, as in training.
_TRAINING = {
    "aten::alpha_dropout": 2,
    "aten::batch_norm": 5,
    "aten::dropout": 2,
    "aten::feature_dropout": 2,
}


def from_torch(model: Any, example_inputs: Any) -> tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]:
    """A Relay module and its parameters; arguments and errors are those of the top-level function.

    Raises
    ------
    ModelError
        If torch is missing, the model is in training mode or cannot be traced, changes a tensor in
        place beyond what tracing can undo, or uses an operator that TVM does not know.
    """
    require_model(model)
    given = example_tensors(example_inputs)
    module = model.module() if isinstance(model, torch_here().export.ExportedProgram) else model
    return from_trace(traced(module, given), given)


def traced(module: Any, example_inputs: tuple[Any, ...]) -> Any:
    """The TorchScript trace of a module, with changes in place undone as far as torch can."""
    torch = torch_here()
    try:
        with torch.no_grad(), _composed_attention(torch), warnings.catch_warnings():
            # TorchScript is deprecated, and TVM 0.17 has no importer of anything younger; what
            # depends on values is a promise of this function, and not worth a warning each.
            warnings.filterwarnings("ignore", message=r"`torch\.jit", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
            found = torch.jit.trace(module, example_inputs, check_trace=False)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise ModelError(f"the model cannot be traced: {_first_line(error)}") from error
    graph = found.graph
    # Until then operators of inner modules are hidden in calls of their methods.
    torch._C._jit_pass_inline(graph)  # noqa: SLF001 - torch gives no other way
    _without_idle_dropouts(graph)
    _with_named_writes(graph)
    # Without this, who reads a tensor that was changed in place afterwards would get the old one.
    torch._C._jit_pass_remove_mutation(graph)  # noqa: SLF001
    return found


def from_trace(
    trace: Any, example_inputs: Sequence[Any]
) -> tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]:
    """A Relay module and its parameters from what :func:`traced` gave for these inputs."""
    if change := change_in_place(trace):
        raise ModelError(f"{change}; write to a new tensor instead")
    if trains := training_operator(trace):
        raise ModelError(f"{trains}; call eval() on its module")
    if missing := missing_operators(trace):
        quantised = any(name.startswith(_QUANTISED) for name in missing)
        way = "quantise by convert_pt2e of torchao" if quantised else "replace it in the model"
        raise ModelError(
            f"TVM's importer does not know {', '.join(missing)}; {way}, or use "
            'torch.compile(model, backend="tvm_ios"), which leaves such operators to PyTorch'
        )
    infos = [
        (name, (tuple(each.shape), str(each.dtype).removeprefix("torch.")))
        for name, each in zip(input_names(trace, len(example_inputs)), example_inputs, strict=True)
    ]
    try:
        with warnings.catch_warnings():
            # TVM's importer compares versions with what distutils had for that.
            warnings.simplefilter("ignore", DeprecationWarning)
            mod, params = relay.frontend.from_pytorch(trace, infos, custom_convert_map=converters())
        # Types are inferred here, so that what does not fit is an error of the import.
        mod = _with_types_of_torch(relay.transform.InferType()(_with_inputs(mod, infos)), trace)
    # The importer asserts, looks up and converts, each with errors of its own kind.
    except Exception as error:
        raise ModelError(
            f"TVM's importer cannot read the model: {type(error).__name__}: {reason_of(error)}"
        ) from error
    return mod, dict(params)


def with_constants(mod: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray]) -> tvm.IRModule:
    """The module with its parameters as constants, so that all inputs are the caller's."""
    main = relay.build_module.bind_params_by_name(mod["main"], dict(params))
    return tvm.IRModule.from_expr(main)


def _with_inputs(
    mod: tvm.IRModule, infos: Sequence[tuple[str, tuple[tuple[int, ...], str]]]
) -> tvm.IRModule:
    """The module with each input once, in the order of ``forward``, and each weight once.

    TVM's importer drops inputs without a use, and makes another variable of what is concatenated.
    """
    main = mod["main"]
    known = {name: relay.var(name, shape=shape, dtype=dtype) for name, (shape, dtype) in infos}
    body = relay.bind(
        main.body, {each: known.setdefault(each.name_hint, each) for each in main.params}
    )
    return tvm.IRModule.from_expr(relay.Function(list(known.values()), body))


def _with_types_of_torch(mod: tvm.IRModule, trace: Any) -> tvm.IRModule:
    """The typed module with outputs of torch's data types.

    TVM's importer makes int32 of the places that ``argmax`` finds, and numbers of truth values.
    """
    main = mod["main"]
    outputs = list(main.body.fields) if isinstance(main.body, relay.Tuple) else [main.body]
    wanted = _output_types(trace)
    kinds = [output.checked_type for output in outputs]
    if len(outputs) != len(wanted) or not all(isinstance(kind, relay.TensorType) for kind in kinds):
        return mod
    if all(kind.dtype == dtype for kind, dtype in zip(kinds, wanted, strict=True)):
        return mod
    outputs = [
        output if kind.dtype == dtype else relay.cast(output, dtype)
        for output, kind, dtype in zip(outputs, kinds, wanted, strict=True)
    ]
    body = relay.Tuple(outputs) if isinstance(main.body, relay.Tuple) else outputs[0]
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(main.params, body)))


def _output_types(trace: Any) -> list[str]:
    """Data types of the outputs of a trace; fewer than there are where one is no tensor."""
    values = list(trace.graph.outputs())
    maker = values[0].node() if len(values) == 1 else None
    if maker is not None and maker.kind() in ("prim::TupleConstruct", "prim::ListConstruct"):
        values = list(maker.inputs())
    types = [getattr(value.type(), "dtype", lambda: None)() for value in values]
    return [str(dtype).removeprefix("torch.") for dtype in types if dtype is not None]


def change_in_place(trace: Any) -> str | None:
    """The first operator that writes to a tensor which others read, and where it stands."""
    for node in trace.graph.nodes():
        if _IN_PLACE.fullmatch(node.kind()):
            return f"{node.kind()} at {_place(node)} changes a tensor in place that others read"
    return None


def training_operator(trace: Any) -> str | None:
    """The first operator that draws numbers or updates statistics, and where it stands."""
    for node in trace.graph.nodes():
        place = _TRAINING.get(node.kind())
        if place is not None and list(node.inputs())[place].toIValue():
            return f"{node.kind()} at {_place(node)} is in training mode"
    return None


def input_names(trace: Any, count: int) -> list[str]:
    """Names of the arguments of ``forward``, which a trace numbers where it has them twice."""
    numbered = [each.debugName() for each in trace.graph.inputs()][-count:] if count else []
    plain = [name.split(".")[0] for name in numbered]
    return plain if len(set(plain)) == count else numbered


def _without_idle_dropouts(graph: Any) -> None:
    """Leave out dropouts that do nothing, also those that would write in place in training."""
    for node in list(graph.nodes()):
        is_dropout = "dropout" in node.kind()
        place = _TRAINING.get(node.kind().removesuffix("_")) if is_dropout else None
        if place is not None and not list(node.inputs())[place].toIValue():
            node.output().replaceAllUsesWith(next(node.inputs()))
            node.destroy()


def _with_named_writes(graph: Any) -> None:
    """Name what ``&=`` and its like call as other changes in place, which torch can undo."""
    for node in list(graph.nodes()):
        if name := _WRITES.get(node.kind()):
            named = graph.create(name, list(node.inputs()), 1)
            named.insertBefore(node)
            named.copyMetadata(node)
            named.output().setType(node.output().type())
            node.output().replaceAllUsesWith(named.output())
            node.destroy()


@contextmanager
def _composed_attention(torch: ModuleType) -> Iterator[None]:
    """Attention without its fast path, one operator that no importer knows."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {lines_that_tell(error, 'no reason given')[0]}"


def _place(node: Any) -> str:
    return str(node.sourceRange()).strip().splitlines()[0] if node.sourceRange() else "the model"
