"""Groups of operators as fused functions of their own, which TVM's fusion leaves alone.

Comes in front of fusion. Who finds groups says what is copied otherwise, and whether a kernel
computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relay

from tvm_ios.relay.constants import is_scalar
from tvm_ios.relay.dataflow import children, copy_call, readers_of, rebuild, with_body

__all__ = ["Readers", "WholeFunctions", "readers_and_result"]

Readers = Mapping[relay.Expr, Sequence[relay.Expr]]


def readers_and_result(order: Sequence[relay.Expr]) -> Readers:
    """Expressions that read each expression; the result is read by nobody that can join a group."""
    return {**readers_of(order), order[-1]: [relay.Tuple([])]}


@dataclass(slots=True)
class WholeFunctions:
    """Fused functions found so far, by the last operator of each."""

    copied: Callable[[relay.Expr, list[relay.Expr]], relay.Expr]
    """Function from an operator and its new arguments to its copy in a fused function."""
    has_kernel: Callable[[relay.Function], bool]
    """Function that says of a fused, typed function whether a kernel computes it."""
    found: dict[relay.Expr, tuple[relay.Function, list[relay.Expr]]] = field(default_factory=dict)
    """Functions, and what each is called with."""
    _known_kernels: dict[int, bool] = field(default_factory=dict)
    """Answers by hash of the function; networks repeat their layers."""

    def take(self, members: Sequence[relay.Expr]) -> bool:
        """Take a group, in the order of the graph; False where no kernel computes it."""
        inputs: dict[relay.Expr, relay.Var] = {}
        for member in members:
            for child in children(member):
                if child in members or child in inputs or is_scalar(child):
                    continue
                inputs[child] = relay.Var(f"p{len(inputs)}", child.checked_type)
        known: dict[relay.Expr, relay.Expr] = dict(inputs)
        for member in members:
            arguments = [known.get(each, each) for each in children(member)]
            known[member] = self.copied(member, arguments)
        function = relay.Function(list(inputs.values()), known[members[-1]])
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
        key = tvm.ir.structural_hash(typed)
        if key not in self._known_kernels:
            self._known_kernels[key] = self.has_kernel(typed)
        if self._known_kernels[key]:
            primitive = function.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
            self.found[members[-1]] = primitive, list(inputs)
        return self._known_kernels[key]

    def called_in(self, module: tvm.IRModule) -> tuple[tvm.IRModule, int]:
        """Module that calls the functions, and their number; the module itself without any."""
        if not self.found:
            return module, 0
        known: dict[relay.Expr, relay.Expr] = {}

        def called(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
            if call not in self.found:
                return copy_call(call, arguments)
            function, inputs = self.found[call]
            return relay.Call(function, [known[each] for each in inputs], span=call.span)

        return with_body(module, rebuild(module["main"].body, known, called)), len(self.found)
