"""Concatenations kept out of fusion where they are faster as operators of their own.

Goes behind :mod:`tvm_ios.relay.transforms.concatenation`, for operators it could not move. A
concatenation that can be a view stays one. One along the innermost axis never is: it stays a copy
of rows where it would be fused with operators that move elements to other rows and places, since
such a kernel asks for each element which piece it is of, and is not vectorised. Slices and
element-wise operators are part of the copy. On a GPU a thread for each element asks at no cost.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.relay.dataflow import (
    copy_call,
    fusion_pattern,
    graph_order,
    is_call_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.functions.shapes import shape_of
from tvm_ios.relay.schedules.concatenations import MOST_PIECES
from tvm_ios.relay.transforms.concatenation import (
    are_views,
    count_readers,
    fuses_with_what_follows,
)

__all__ = ["keep_concatenations_alone"]

CUTS = ("strided_slice", "split")
"""Operators that read rows, or parts of rows, as they lie."""


def keep_concatenations_alone(
    module: tvm.IRModule, target: tvm.target.Target
) -> tuple[tvm.IRModule, int]:
    """Module in which fusion stops around concatenations that are faster alone.

    With it comes the number of those that TVM would have fused. Layouts have been chosen before.
    """
    main = module["main"]
    readers = count_readers(main.body)
    copies = target.kind.name == "llvm"
    found: dict[relay.Call, bool] = {}
    """Concatenations, and whether the producers of their pieces are kept out, too."""
    for expression in graph_order(main.body):
        reads = expression.args if isinstance(expression, relay.Call) else []
        for whole in filter(_joins_tensors, [expression, *reads]):
            pieces = list(whole.args[0].fields)
            read_alone = whole is not expression and readers[whole] == 1
            would_fuse = read_alone and fusion_pattern(expression) <= OpPattern.INJECTIVE
            turns = would_fuse and fusion_pattern(expression) > OpPattern.BROADCAST
            scatters = any(_scatters(piece, readers) for piece in pieces)
            too_many = len(pieces) > MOST_PIECES
            joins = any(_would_join(piece, readers) for piece in pieces)
            asks = turns or scatters or (too_many and (would_fuse or joins))
            if copies and _is_innermost(whole) and asks:
                found[whole] = True
            elif would_fuse and _can_be_a_view(whole, pieces, readers):
                found.setdefault(whole, False)
    if not found:
        return module, 0

    def kept_alone(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call not in found:
            return copy_call(call, arguments)
        if found[call]:
            pieces = zip(call.args[0].fields, arguments[0].fields, strict=True)
            fields = [_apart(new) if _would_join(old, readers) else new for old, new in pieces]
            arguments = [relay.Tuple(fields)]
        return _apart(copy_call(call, arguments))

    return with_body(module, rebuild(main.body, {}, kept_alone)), len(found)


def _apart(expression: relay.Expr) -> relay.Expr:
    return relay.annotation.stop_fusion(expression)


def _joins_tensors(expression: relay.Expr) -> bool:
    """True if an expression is a concatenation of tensors that are named one by one."""
    return is_call_of(expression, "concatenate") and isinstance(expression.args[0], relay.Tuple)


def _axis(whole: relay.Call) -> int:
    return int(call_attribute(whole, "axis", 0)) % len(whole.checked_type.shape)


def _is_innermost(whole: relay.Call) -> bool:
    extents = [int(extent) for extent in whole.checked_type.shape]
    return _axis(whole) == len(extents) - 1 and any(extent > 1 for extent in extents[:-1])


def _would_join(piece: relay.Expr, readers: Mapping[relay.Expr, int]) -> bool:
    """True if TVM would compute a piece in the concatenating kernel: nobody else reads it."""
    made = piece.tuple_value if isinstance(piece, relay.TupleGetItem) else piece
    if is_call_of(made, "annotation.stop_fusion") or (made is piece and readers[piece] > 1):
        return False
    return fusion_pattern(made) <= int(OpPattern.INJECTIVE)


def _scatters(piece: relay.Expr, readers: Mapping[relay.Expr, int]) -> bool:
    """True if the kernel would compute a piece whose rows are not read as they lie."""
    waiting = [piece]
    while waiting:
        expression = waiting.pop()
        if not _would_join(expression, readers):
            continue
        made = expression.tuple_value if isinstance(expression, relay.TupleGetItem) else expression
        if not isinstance(made, relay.Call):
            continue
        if fusion_pattern(made) > OpPattern.BROADCAST and not is_call_of(made, *CUTS):
            return True
        waiting.extend(made.args)
    return False


def _can_be_a_view(
    whole: relay.Call, pieces: list[relay.Expr], readers: Mapping[relay.Expr, int]
) -> bool:
    """True if the pieces of a concatenation can be computed in their final places."""
    shapes = [shape_of(piece) for piece in pieces]
    # What is injective and read here alone would be fused with the concatenation.
    return are_views(pieces, shapes, _axis(whole)) and all(
        fusion_pattern(piece) == OpPattern.OUT_ELEMWISE_FUSABLE
        or fuses_with_what_follows(piece, readers)
        or (is_call_of(piece, "concatenate") and readers[piece] > 1)
        for piece in pieces
    )
