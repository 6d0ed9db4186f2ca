"""Padding of dense layers' rows to whole tiles, for TVM's kernels.

TVM's CPU kernel of a dense layer computes eight rows at a time, or the largest half, quarter or
eighth of that which divides them: 197 patches of an image are computed one by one, a third as fast
as 200. Such a layer gets rows of zeros, whose results are cut off again. Its own rows stay the
same, bit by bit if the kernel sums in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import copy_call, is_call_of, kernel_calls, rebuild, with_body
from tvm_ios.relay.inputs import CheckedModule
from tvm_ios.relay.transforms.bound_model import bound_model
from tvm_ios.relay.transforms.products.shared_matrices import multiply_rows_at_once

__all__ = ["may_pad_rows", "pad_rows"]

TILE_ROWS = 8
"""Rows that TVM computes at a time if the number of rows is a multiple."""
FAST_ENOUGH = 4
"""Rows at a time that keep the vector units busy: 100 rows run as fast as 128, 50 half as fast."""
MOST_WORK = 4 / 3
"""Ratio of rows to the original ones above which a layer is left unchanged."""


def pad_rows(
    mod: tvm.IRModule | CheckedModule, params: Mapping[str, Any] | None
) -> tuple[tvm.IRModule, int]:
    """Module with padded dense layers, whose rows TVM's kernel takes less than four at a time.

    Parameters are bound, as by :func:`bound_model`; with it comes the number of padded layers.
    """
    bound = bound_model(mod, params)
    dense = multiply_rows_at_once(bound)
    body = dense["main"].body
    padded = sum(map(_is_slow, kernel_calls(body)))
    return (with_body(dense, rebuild(body, {}, _padded)) if padded else bound), padded


def may_pad_rows(typed: tvm.IRModule) -> bool:
    """True if ``main`` of a typed module has rows to pad."""
    return any(map(_is_slow, kernel_calls(multiply_rows_at_once(typed)["main"].body)))


def _padded(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
    """Copy of a call, if slow on more rows, of which the result keeps the original ones."""
    if not _is_slow(call):
        return copy_call(call, arguments)
    data, weight = arguments
    rows = _rows(call)
    zero = relay.const(0, call.args[0].checked_type.dtype)
    more = relay.nn.pad(data, ((0, _whole_tiles(rows) - rows), (0, 0)), zero)
    return relay.strided_slice(copy_call(call, [more, weight]), [0], [rows], axes=[0])


def _is_slow(call: relay.Call) -> bool:
    if not is_call_of(call, "nn.dense") or len(call.checked_type.shape) != 2:
        return False
    rows = _rows(call)
    return rows % FAST_ENOUGH > 0 and _whole_tiles(rows) <= MOST_WORK * rows


def _rows(dense: relay.Call) -> int:
    return int(dense.checked_type.shape[0])


def _whole_tiles(rows: int) -> int:
    return -(-rows // TILE_ROWS) * TILE_ROWS
