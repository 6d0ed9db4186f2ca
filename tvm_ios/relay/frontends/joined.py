"""Several models as one Relay module: their inputs and outputs side by side, parameters bound.

All that follows sees one network. Its parts go with the module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_ios.core.parts import Part, input_name, require_shared
from tvm_ios.errors import ModelError
from tvm_ios.relay.inputs import check_module, check_parameters
from tvm_ios.relay.transforms.bound_model import with_parameters
from tvm_ios.runtime.base.module_attributes import with_parts

__all__ = ["joined_module"]


def joined_module(
    models: Mapping[str, tuple[tvm.IRModule, Mapping[str, Any] | None]],
    share: Collection[str] = (),
) -> tvm.IRModule:
    """Module of one network that several models are the parts of, with their parameters.

    Parameters
    ----------
    models
        Modules of static shapes with their parameters, by name of the part; None where weights are
        inputs on purpose.
    share
        Inputs that are one for all models which have them; others are named ``part__input``.

    Raises
    ------
    OptionError
        If an input to be shared is of several shapes, or in one model only.
    ModelError
        If a model is unfit for the graph executor, or its parameters do not fit.
    """
    mains = {name: _bound_main(name, *model) for name, model in models.items()}
    inputs_of = {
        name: {each.name_hint: _told(each.checked_type) for each in main.params}
        for name, main in mains.items()
    }
    require_shared(share, inputs_of)
    inputs: dict[str, relay.Var] = {}
    outputs: list[relay.Expr] = []
    parts = []
    for name, main in mains.items():
        named = {input_name(name, each.name_hint, share): each for each in main.params}
        for full, each in named.items():
            inputs.setdefault(full, relay.Var(full, each.checked_type))
        renamed = {each: inputs[full] for full, each in named.items()}
        own = _outputs(relay.bind(main.body, renamed))
        numbers = range(len(outputs), len(outputs) + len(own))
        outputs += own
        parts.append(Part(name=name, inputs=tuple(named), outputs=tuple(numbers)))
    body = relay.Tuple(outputs)
    module = tvm.IRModule.from_expr(relay.Function(list(inputs.values()), body))
    return with_parts(relay.transform.InferType()(module), parts)


def _bound_main(
    name: str, module: tvm.IRModule, params: Mapping[str, Any] | None
) -> relay.Function:
    """Typed main function of a part, whose parameters are constants."""
    try:
        typed = check_module(module)
        return with_parameters(typed, check_parameters(typed["main"], params))["main"]
    except ModelError as error:
        raise ModelError(f"part {name!r}: {error}") from error


def _outputs(body: relay.Expr) -> list[relay.Expr]:
    """Outputs of a function's body, tuples in tuples flattened as the graph executor does it."""
    if isinstance(body, relay.Tuple):
        return [each for field in body.fields for each in _outputs(field)]
    type_ = relay.transform.InferTypeLocal(body)
    if not isinstance(type_, tvm.ir.TupleType):
        return [body]
    fields = (relay.TupleGetItem(body, place) for place in range(len(type_.fields)))
    return [each for field in fields for each in _outputs(field)]


def _told(type_: tvm.ir.TensorType) -> str:
    return f"{type_.dtype} {[int(extent) for extent in type_.shape]}"
