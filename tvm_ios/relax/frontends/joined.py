"""Several models as one module of Relax: their inputs and outputs side by side, parameters bound.

All that follows sees one network. Its parts go with the module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tvm
from tvm import relax

from tvm_ios.core.parts import SEPARATOR, Part, input_name, require_shared
from tvm_ios.errors import ModelError
from tvm_ios.relax.ir import name_of
from tvm_ios.relax.prepare import bound_module
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
        Modules with their parameters, by name of the part; None where weights are inputs on
        purpose.
    share
        Inputs that are one for all models which have them; others are named ``part__input``.

    Raises
    ------
    OptionError
        If an input to be shared is of several types, or in one model only.
    ModelError
        If a module has no ``main`` in Relax, or its parameters do not fit.
    """
    builder = relax.BlockBuilder()
    mains = {name: _main_of_part(builder, name, *model) for name, model in models.items()}
    inputs_of = {
        name: {name_of(each): each.ty for each in main.params} for name, main in mains.items()
    }
    require_shared(
        share,
        {
            name: {each: str(type_) for each, type_ in own.items()}
            for name, own in inputs_of.items()
        },
    )
    names = {
        name: [input_name(name, each, share) for each in own] for name, own in inputs_of.items()
    }
    inputs: dict[str, relax.Var] = {}
    for name, types in inputs_of.items():
        for full, type_ in zip(names[name], types.values(), strict=True):
            inputs.setdefault(full, relax.Var(full, type_))
    functions = {name: builder.add_func(main, name) for name, main in mains.items()}
    outputs: list[relax.Expr] = []
    parts = []
    with builder.function("main", list(inputs.values())):
        for name, function in functions.items():
            result = builder.emit(relax.Call(function, [inputs[full] for full in names[name]]))
            own = _leaves(builder, result)
            numbers = range(len(outputs), len(outputs) + len(own))
            outputs += own
            parts.append(Part(name=name, inputs=tuple(names[name]), outputs=tuple(numbers)))
        builder.emit_func_output(relax.Tuple(outputs))
    module = builder.get()
    inlined = module["main"].inline_functions(
        {function: mains[name] for name, function in functions.items()}
    )
    module.update_func(module.get_global_var("main"), inlined)
    for function in functions.values():
        del module[function]
    return with_parts(module, parts)


def _main_of_part(
    builder: relax.BlockBuilder,
    name: str,
    module: tvm.IRModule,
    params: Mapping[str, Any] | None,
) -> relax.Function:
    """Main function of a part, whose kernels the builder has, under names that begin with its."""
    try:
        bound = bound_module(module, params)
    except ModelError as error:
        raise ModelError(f"part {name!r}: {error}") from error
    kernels = {}
    for variable, function in bound.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            kernel = function.without_attr("global_symbol")
            own = f"{name}{SEPARATOR}{variable.name_hint}"
            kernels[variable.name_hint] = builder.add_func(kernel, own)
        elif variable.name_hint != "main":
            raise ModelError(
                f"part {name!r}: main calls the function {variable.name_hint!r}; inline it "
                "(relax.transform.InlinePrivateFunctions)"
            )
    return _Renaming(kernels).visit_expr(bound["main"].without_attr("global_symbol"))


@relax.expr_functor.mutator
class _Renaming(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """Mutator that puts other functions in the place of those with a name."""

    def __init__(self, new: Mapping[str, tvm.ir.GlobalVar]) -> None:
        super().__init__()
        self.new = new

    def visit_global_var_(self, variable: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        """Function in place of another."""
        return self.new[variable.name_hint]


def _leaves(builder: relax.BlockBuilder, value: relax.Var) -> list[relax.Expr]:
    """Tensors of a value, tuples in tuples flattened."""
    if not isinstance(value.ty, tvm.ir.TupleType):
        return [value]
    fields = [builder.emit(relax.TupleGetItem(value, n)) for n in range(len(value.ty.fields))]
    return [leaf for field in fields for leaf in _leaves(builder, field)]
