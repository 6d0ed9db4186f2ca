"""Gates and slices that stay out of the kernel of the convolution beside them.

Comes before TVM fuses kernels. It would compute a product of a whole image by one number a channel
in the loops of the convolution that makes these numbers, cut an image in those of the next one, and
compute the factors of its channels there, if a run tells these; no operator library does that.
"""

from __future__ import annotations

import math

import tvm
from tvm import relax

from tvm_ios.relax.ir import Constant, is_call_tir, main_of, operator_calls, shape_of
from tvm_ios.relax.notes import noted_function

__all__ = ["keep_gates_apart"]

PATTERN = "op_pattern"
ELEMENTS, BROADCAST, MOVED, SUMMED = 0, 1, 2, 4
"""TVM's kinds of kernels: of elements, with broadcasting, of moved elements, convolutions."""


@tvm.transform.module_pass(opt_level=0, name="KeepGatesApart")  # type: ignore[untyped-decorator]
def keep_gates_apart(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass after which convolutions are fused with what is as large as their results only."""
    del context
    main = main_of(module)
    gates = [] if main is None else _Kernels(module, main).gates()
    changed = module.clone() if gates else module
    for each in gates:
        changed.update_func(each, module[each].with_attr(PATTERN, MOVED))
    return changed


class _Kernels:
    """Kernels that ``main`` calls, and what is made by which."""

    def __init__(self, module: tvm.IRModule, main: relax.Function) -> None:
        self._module = module
        self._calls = [call for call in operator_calls(main) if is_call_tir(call)]
        self._made = {
            binding.var: binding.value
            for block in main.body.blocks
            for binding in block.bindings
            if isinstance(binding, relax.VarBinding)
        }

    def gates(self) -> list[tvm.ir.GlobalVar]:
        """Kernels that are to stay apart."""
        found = []
        for call in filter(self._is_broadcast, self._calls):
            read, size = call.args[1].fields, _size(call)
            summed = [each for each in read if self._is_summed(each)]
            if any(_size(each) > size for each in read) or any(_size(x) < size for x in summed):
                found.append(call.args[0])
            elif summed:
                found += [self._made[x].args[0] for x in read if self._is_apart(x, size)]
        return found

    def _pattern(self, call: relax.Call) -> int:
        return int(self._module[call.args[0]].attrs.get(PATTERN, -1))

    def _is_broadcast(self, call: relax.Call) -> bool:
        return self._pattern(call) in (ELEMENTS, BROADCAST)

    def _is_summed(self, value: relax.Expr) -> bool:
        """True if a value is a convolution or product that a library may compute, and its steps."""
        call = self._made.get(value)
        if not isinstance(call, relax.Call) or not is_call_tir(call):
            return False
        if not self._is_broadcast(call):
            # Other sums, such as means of norms, are no calls of libraries.
            noted = noted_function(self._module[call.args[0]])
            return self._pattern(call) == SUMMED and noted is not None
        same = [each for each in call.args[1].fields if _size(each) == _size(call)]
        return any(map(self._is_summed, same))

    def _is_apart(self, value: relax.Expr, size: int) -> bool:
        """True for what is computed of constants and of tensors with fewer elements than given."""
        call = self._made.get(value)
        if not isinstance(call, relax.Call) or not is_call_tir(call):
            return False
        read = [each for each in call.args[1].fields if not isinstance(each, Constant)]
        return self._is_broadcast(call) and all(_size(each) < size for each in read)


def _size(value: relax.Expr) -> int:
    """Elements of a value; 0 where its shape is not known."""
    shape = shape_of(value)
    return 0 if shape is None else math.prod(shape)
