"""Attention kept whole: softmax between two products becomes one fused function and one kernel.

Goes behind the choice of layouts, in front of norms that are kept whole, and so in front of fusion.
Scores stay in the cache of a core then, and transposes of heads, before and behind, are strides.
What is scaled, masked or biased joins, as do the moves of data whose results nobody else reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relay

from tvm_ios.relay.attention.kernel import has_attention_kernel
from tvm_ios.relay.attention.places import MOVES
from tvm_ios.relay.attention.reader import STEPS
from tvm_ios.relay.constants import is_scalar
from tvm_ios.relay.dataflow import (
    children,
    copy_call,
    graph_order,
    is_call_of,
)
from tvm_ios.relay.functions.shapes import RESHAPES
from tvm_ios.relay.transforms.whole_functions import Readers, WholeFunctions, readers_and_result
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["keep_attention_whole"]

PRODUCT = "nn.batch_matmul"


def keep_attention_whole(
    module: tvm.IRModule, target: tvm.target.Target
) -> tuple[tvm.IRModule, int]:
    """Module in which attention is one fused function each, and their number.

    Only for CPUs, and where bits may change.
    """
    if target.kind.name != "llvm" or not bits_may_change():
        return module, 0
    order = graph_order(module["main"].body)
    readers = readers_and_result(order)
    place = {expression: number for number, expression in enumerate(order)}
    wholes = WholeFunctions(_copied, has_attention_kernel)
    for softmax in order:
        if not is_call_of(softmax, "nn.softmax"):
            continue
        scores = _scores(softmax.args[0], readers)
        for end in reversed(_ends(softmax, readers) if scores else []):
            members = sorted(_group([*scores, *end], readers), key=place.__getitem__)
            if wholes.take(members):
                break
    return wholes.called_in(module)


def _ends(softmax: relay.Call, readers: Readers) -> list[list[relay.Expr]]:
    """Chains of operators from the softmax on, to the second product and to each move behind it."""
    chain: list[relay.Expr] = [softmax]
    ends: list[list[relay.Expr]] = []
    while len(readers[chain[-1]]) == 1:
        (reader,) = readers[chain[-1]]
        if ends:
            if not is_call_of(reader, *RESHAPES, "transpose"):
                break
        elif not is_call_of(reader, PRODUCT, *RESHAPES):
            break
        chain.append(reader)
        if ends or is_call_of(reader, PRODUCT):
            ends.append(list(chain))
    return ends


def _scores(expression: relay.Expr, readers: Readers) -> list[relay.Expr]:
    """Chain from a softmax's operand back to the product of query and key; empty if there is none.

    Nobody else reads any of it.
    """
    if len(readers[expression]) > 1:
        return []
    if is_call_of(expression, PRODUCT):
        return [expression]
    if not is_call_of(expression, *RESHAPES, *STEPS):
        return []
    for operand in expression.args[: 1 if is_call_of(expression, *RESHAPES) else 2]:
        found = _scores(operand, readers)
        if found:
            return [expression, *found]
    return []


def _group(chain: Sequence[relay.Expr], readers: Readers) -> set[relay.Expr]:
    """Operators of a chain, and the moves and scales in front of it whose results only it reads."""
    group = set(chain)
    pending = list(chain)
    while pending:
        for child in children(pending.pop()):
            joins = isinstance(child, relay.TupleGetItem) or is_call_of(child, *MOVES)
            if (
                child not in group
                and (joins or _scales(child))
                and all(reader in group for reader in readers[child])
            ):
                group.add(child)
                pending.append(child)
    return {
        each
        for each in group
        if not isinstance(each, relay.TupleGetItem) or each.tuple_value in group
    }


def _scales(expression: relay.Expr) -> bool:
    return is_call_of(expression, "divide", "multiply") and any(map(is_scalar, expression.args))


def _copied(member: relay.Expr, arguments: list[relay.Expr]) -> relay.Expr:
    if isinstance(member, relay.TupleGetItem):
        return relay.TupleGetItem(arguments[0], member.index)
    if not is_call_of(member, PRODUCT):
        return copy_call(member, arguments)
    # TVM fuses nothing with two products, but takes einsum for an element-wise operator.
    left = "bki" if member.attrs.transpose_a else "bik"
    right = "bjk" if member.attrs.transpose_b else "bkj"
    return relay.einsum(relay.Tuple(arguments), f"{left},{right}->bij")
