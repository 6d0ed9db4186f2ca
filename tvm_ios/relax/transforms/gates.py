"""Gates and slices that stay out of the kernel of the convolution beside them.

Comes before TVM fuses kernels. It would compute a product of a whole image by one number a channel
in the loops of the convolution that makes these numbers, and cut an image in those of the next one;
no operator library does that.
"""

from __future__ import annotations

import math

import tvm
from tvm import relax

from tvm_ios.relax.ir import is_call_tir, main_of, operator_calls, static_tensors
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
    if main is None:
        return module
    made = {
        binding.var: binding.value
        for block in main.body.blocks
        for binding in block.bindings
        if isinstance(binding, relax.VarBinding)
    }

    def pattern(call: relax.Call) -> int:
        return int(module[call.args[0]].attrs.get(PATTERN, -1))

    def is_summed(value: relax.Expr) -> bool:
        """True if a value is a convolution or product that a library may compute, and its steps."""
        call = made.get(value)
        if not isinstance(call, relax.Call) or not is_call_tir(call):
            return False
        if pattern(call) not in (ELEMENTS, BROADCAST):
            # Other sums, such as means of norms, are no calls of libraries.
            return pattern(call) == SUMMED and noted_function(module[call.args[0]]) is not None
        same = [each for each in call.args[1].fields if _size(each) == _size(call)]
        return any(map(is_summed, same))

    gates = [
        call.args[0]
        for call in operator_calls(main)
        if is_call_tir(call)
        and pattern(call) in (ELEMENTS, BROADCAST)
        and any(
            _size(each) > _size(call) or (_size(each) < _size(call) and is_summed(each))
            for each in call.args[1].fields
        )
    ]
    changed = module.clone() if gates else module
    for each in gates:
        changed.update_func(each, module[each].with_attr(PATTERN, MOVED))
    return changed


def _size(value: relax.Expr) -> int:
    """Elements of a value; 0 where its shape is not known."""
    tensors = static_tensors(value.ty)
    return math.prod(tensors[0].shape) if tensors and len(tensors) == 1 else 0
