"""Rewriting of a model into the spelling that all importers share, before layouts are chosen."""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.transforms.products.dense_products import multiply_by_dense
from tvm_ios.relay.transforms.products.late_reshapes import reshape_after_steps
from tvm_ios.relay.transforms.spellings.averages import with_pooled_channels
from tvm_ios.relay.transforms.spellings.factors import with_late_factors
from tvm_ios.relay.transforms.spellings.moves import with_short_moves
from tvm_ios.relay.transforms.spellings.numbers import with_known_numbers
from tvm_ios.relay.transforms.spellings.slices import with_slices

__all__ = ["in_one_spelling"]

SPELLINGS = (
    relay.transform.CanonicalizeOps(),  # a bias is a sum, through which TVM scales weights
    multiply_by_dense,
    with_known_numbers,
    with_slices,
    with_pooled_channels,
    with_short_moves,  # of which steps of products are freed
    with_late_factors,
    reshape_after_steps,
    with_short_moves,  # those that steps left behind
)


def in_one_spelling(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module, parameters bound, that computes the same up to the last bits of its results.

    What importers write in several ways is written in one, so that libraries and kernels of our own
    find it, and a model becomes the same kernels through whichever importer it came.
    """
    for change in SPELLINGS:
        module = change(module)
    return module
