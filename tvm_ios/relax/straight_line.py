"""Straight-line code of a ``main`` in Relax: its calls in order, and what each of them reads.

Stage functions of a partitioned module are read as if they stood in ``main``. Code that is no
straight line of known shapes (control flow, dynamic shapes, calls with side effects) gives the
obstacles instead: such a module is left as it is, and TVM's virtual machine runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_ios.core.graph import Obstacle
from tvm_ios.core.stage_attributes import is_stage
from tvm_ios.errors import ModelError
from tvm_ios.plan.kernel_graph import GraphTensor
from tvm_ios.relax.ir import call_name, name_of, static_tensors, variables_in

__all__ = ["Made", "ReadCall", "StraightLine", "Tree", "expression_of", "leaves", "read_main"]


@dataclass(frozen=True, slots=True)
class Made:
    """Tensor of the model: an output of a call, or (with call -1) a parameter of ``main``."""

    call: int
    output: int


Tree = Made | tuple[Any, ...] | Any
"""Value of a variable: a tensor, a tuple of values, or an expression without variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """Call of ``main``, or of one of its stages."""

    call: relax.Call
    reads: dict[relax.Var, Tree]
    """Value of each variable among the arguments."""
    outputs: tuple[GraphTensor, ...]
    alone: bool
    """True if the result is a tensor, False if it is a tuple of tensors."""
    stage: str = ""
    """Function that the call stands in; empty for ``main`` itself."""


@dataclass(slots=True)
class StraightLine:
    """Calls of ``main`` in order, and its result; obstacles in place of all that, if any."""

    parameters: tuple[tuple[str, GraphTensor], ...] = ()
    calls: list[ReadCall] = field(default_factory=list)
    result: Tree = ()
    obstacles: dict[Obstacle, None] = field(default_factory=dict)


def read_main(module: tvm.IRModule, main: relax.Function) -> StraightLine:
    """Straight-line code of a module's ``main``."""
    line = StraightLine()
    reader = _Reader(module, line)
    if relax.analysis.contains_impure_call(main):
        reader.refuse("main", "a call with side effects")
    known: dict[relax.Var, Tree] = {}
    parameters = []
    for number, variable in enumerate(main.params):
        tensors = static_tensors(variable.ty)
        if tensors is None or isinstance(variable.ty, tvm.ir.TupleType):
            reader.refuse("main", f"parameter {name_of(variable)!r} has the type {variable.ty}")
            continue
        known[variable] = Made(-1, number)
        parameters.append((name_of(variable), tensors[0]))
    line.parameters = tuple(parameters)
    if not line.obstacles:
        line.result = reader.read(main, known, "")
    return line


def expression_of(tree: Tree, value_of: Callable[[Made], Any]) -> Any:
    """Expression of a value, from those of its tensors."""
    if isinstance(tree, tuple):
        return relax.Tuple([expression_of(piece, value_of) for piece in tree])
    return value_of(tree) if isinstance(tree, Made) else tree


def leaves(tree: Tree) -> Iterator[Any]:
    """Tensors and expressions that a value is made of."""
    if isinstance(tree, tuple):
        for piece in tree:
            yield from leaves(piece)
    else:
        yield tree


class _Reader:
    """Walk over ``main`` and its stages."""

    def __init__(self, module: tvm.IRModule, line: StraightLine) -> None:
        self.line = line
        self.stages = {
            variable: function
            for variable, function in module.functions_items()
            if is_stage(function.attrs)
        }

    def refuse(self, where: str, reason: str) -> None:
        self.line.obstacles[Obstacle(where, reason)] = None

    def read(self, function: relax.Function, known: dict[relax.Var, Tree], where: str) -> Tree:
        """Value of a function's result; calls and obstacles go to the line."""
        body = function.body
        if not isinstance(body, relax.SeqExpr):
            raise ModelError(
                f"function {where or 'main'} is not in normal form; apply "
                "tvm.relax.transform.Normalize first"
            )
        for block in body.blocks:
            for binding in block.bindings:
                known[binding.var] = self._bound(binding, known, where)
        return self._value(body.body, known)

    def _bound(self, binding: relax.Binding, known: dict[relax.Var, Tree], where: str) -> Tree:
        name = name_of(binding.var)
        if not isinstance(binding, relax.VarBinding):
            self.refuse(name, "a match_cast")
            return ()
        value = binding.value
        if isinstance(value, relax.If):
            self.refuse(name, "control flow (If)")
            return ()
        if isinstance(value, relax.Function):
            self.refuse(name, "a local function")
            return ()
        if not isinstance(value, relax.Call):
            return self._value(value, known)
        if value.op in self.stages:
            return self._stage(value, known)
        outputs = static_tensors(binding.var.ty)
        if outputs is None:
            self.refuse(name, f"{call_name(value)} gives {binding.var.ty}")
            return ()
        if call_name(value) == "relax.call_tir_inplace":
            self.refuse(name, "a call that writes into its arguments")
        number = len(self.line.calls)
        alone = not isinstance(binding.var.ty, tvm.ir.TupleType)
        self.line.calls.append(
            ReadCall(
                call=value,
                reads={variable: known.get(variable, ()) for variable in variables_in(value)},
                outputs=outputs,
                alone=alone,
                stage=where,
            )
        )
        made = tuple(Made(number, output) for output in range(len(outputs)))
        return made[0] if alone else made

    def _stage(self, call: relax.Call, known: dict[relax.Var, Tree]) -> Tree:
        function = self.stages[call.op]
        values = [self._value(argument, known) for argument in call.args]
        return self.read(
            function, dict(zip(function.params, values, strict=True)), name_of(call.op)
        )

    def _value(self, expression: Any, known: dict[relax.Var, Tree]) -> Tree:
        if isinstance(expression, relax.Var):
            return known.get(expression, ())
        if isinstance(expression, relax.Tuple):
            return tuple(self._value(each, known) for each in expression.fields)
        if isinstance(expression, relax.TupleGetItem):
            whole = self._value(expression.tuple_value, known)
            return whole[expression.index] if isinstance(whole, tuple) and whole else ()
        return expression
