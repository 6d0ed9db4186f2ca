"""Checks of a user's module, parameters and target. Every refusal is a ModelError."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.host import require_known_processor
from tvm_ios.relay.context import reason_of
from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.obstacles import is_primitive, obstacles_of, require_sizes

__all__ = ["CheckedModule", "check_module", "check_parameters", "resolve_target", "weight_inputs"]

WEIGHT_ARGUMENTS = {
    "nn.conv1d": (1,),
    "nn.conv2d": (1,),
    "nn.conv3d": (1,),
    "nn.conv2d_transpose": (1,),
    "nn.dense": (1,),
    "nn.bias_add": (1,),
    "nn.batch_norm": (1, 2, 3, 4),
}
"""Positions of arguments that are parameters of a model, never its inputs, by operator."""


@dataclass(frozen=True, slots=True)
class CheckedModule:
    """Module that :func:`check_module` has checked, and need not check again.

    Modules can be changed in place, so nobody else may hold this one.
    """

    typed: tvm.IRModule


def resolve_target(target: Any) -> tvm.target.Target:
    """TVM target with a host, from whatever TVM takes for a target."""
    if target is None:
        target = tvm.target.Target.current(allow_none=True)
        if target is None:
            raise ModelError("no target was given; pass one, such as target='llvm'")
    try:
        chosen = tvm.target.Target.canon_multi_target_and_host(target)
    except (ValueError, TypeError, AttributeError, tvm.TVMError) as error:
        raise ModelError(f"TVM does not have target {str(target)!r}: {reason_of(error)}") from error
    if len(chosen) != 1:
        raise ModelError(
            f"target {str(target)!r} names {len(chosen)} devices; give one, such as 'llvm'"
        )
    kind = chosen[0].kind.name
    if tvm.get_global_func(f"target.build.{kind}", allow_missing=True) is None:
        raise ModelError(
            f"this TVM was built without a code generator for target {kind!r}; choose another "
            "target, such as 'llvm', or install a TVM that has it"
        )
    for each in (chosen[0], chosen[0].host):
        if each is not None and each.kind.name == "llvm":
            require_known_processor(each)
    return chosen[0]


def check_module(mod: Any) -> tvm.IRModule:
    """Module with types inferred and plain helper functions inlined.

    A :class:`CheckedModule` was checked before, and its module is returned unchanged.
    """
    if isinstance(mod, CheckedModule):
        return mod.typed
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(
            f"expected a tvm.IRModule, got {type(mod).__name__}; "
            "wrap a Relay function with tvm.IRModule.from_expr"
        )
    names = sorted(variable.name_hint for variable in mod.get_global_vars())
    if "main" not in names:
        raise ModelError(
            f"the module has no function 'main', only {names}; name the model's function 'main'"
        )
    if not isinstance(mod["main"], relay.Function):
        raise ModelError(
            f"'main' is a {type(mod['main']).__name__}, not a Relay function; "
            "this tvm-ios schedules Relay modules"
        )
    for parameter in mod["main"].params:
        if parameter.type_annotation is None:
            raise ModelError(
                f"input {parameter.name_hint!r} of main has no type; give its shape and type, "
                f"such as relay.var({parameter.name_hint!r}, shape=(1, 3, 224, 224))"
            )
    try:
        typed = relay.transform.InferType()(mod)
    except tvm.TVMError as error:
        raise ModelError(f"the module does not type-check: {reason_of(error)}") from error
    for obstacle in obstacles_of(typed):
        raise ModelError(
            f"{obstacle.where}: {obstacle.reason} cannot run on a graph executor; give static "
            "shapes and straight-line code, or run this model on TVM's virtual machine"
        )
    relay.analysis.post_order_visit(typed["main"], _require_sizes)
    # A pass on functions leaves types behind.
    return relay.transform.ToGraphNormalForm()(_inlined(typed))


def _require_sizes(expression: relay.Expr) -> None:
    if isinstance(expression, relay.Var):
        require_sizes(f"input {expression.name_hint!r} of main is", expression.checked_type)
    elif isinstance(expression, relay.Call):
        name = expression.op.name if isinstance(expression.op, tvm.ir.Op) else "a function"
        require_sizes(f"main: {name} makes", expression.checked_type)


def _inlined(module: tvm.IRModule) -> tvm.IRModule:
    """Module with plain global functions inlined, so that their operators are scheduled, too."""
    helpers = {
        variable: function
        for variable, function in module.functions.items()
        if variable.name_hint != "main"
        and isinstance(function, relay.Function)
        and not is_primitive(function)
    }
    if not helpers:
        return module
    marked = tvm.IRModule(module.functions, module.type_definitions)
    for variable, function in helpers.items():
        marked[variable] = function.with_attr("Inline", tvm.tir.IntImm("int32", 1))
    return relay.transform.Inline()(marked)


def check_parameters(
    main: relay.Function, params: Mapping[str, Any] | None
) -> dict[str, tvm.nd.NDArray]:
    """Parameters as TVM arrays, each of the shape and type that ``main`` wants."""
    given = {} if params is None else dict(params)
    types = {parameter.name_hint: parameter.checked_type for parameter in main.params}
    unknown = sorted(set(given) - set(types))
    if unknown:
        raise ModelError(
            f"main has no inputs {unknown[:5]} for {len(unknown)} of {len(given)} parameters; "
            f"its inputs are {sorted(types)[:8]}{' …' if len(types) > 8 else ''}"
        )
    arrays = {name: _as_array(name, value, types[name]) for name, value in given.items()}
    if params is not None:
        missing = [name for name in weight_inputs(main) if name not in given]
        if missing:
            raise ModelError(
                f"{len(missing)} parameters are missing, first {missing[:5]}; pass the params the "
                "frontend returned, or params=None where weights are inputs on purpose"
            )
    return arrays


def _as_array(name: str, value: Any, type_: tvm.ir.TensorType) -> tvm.nd.NDArray:
    try:
        array = value if isinstance(value, tvm.nd.NDArray) else tvm.nd.array(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"parameter {name!r} is a {type(value).__name__} that makes no array of "
            f"{type_.dtype}: {reason_of(error)}; give a NumPy array or a tvm.nd.NDArray"
        ) from error
    wanted = tuple(int(extent) for extent in type_.shape)
    if tuple(array.shape) != wanted or str(array.dtype) != str(type_.dtype):
        raise ModelError(
            f"parameter {name!r} is {array.dtype}{list(array.shape)}, but main wants "
            f"{type_.dtype}{list(wanted)}"
        )
    return array


def weight_inputs(main: relay.Function) -> list[str]:
    """Names of inputs that are used as weights, in order."""
    own = set(main.params)
    found: dict[str, None] = {}
    for call in all_calls(main):
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        for position in WEIGHT_ARGUMENTS.get(name, ()):
            argument = call.args[position]
            if isinstance(argument, relay.Var) and argument in own:
                found[argument.name_hint] = None
    return list(found)
