"""What merging does to the kernels around it, on graphs that are lists of tensors."""

from __future__ import annotations

import pytest

from tvm_ios.core.merge_outputs import MergeOutputs
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.merge_effects import MergeEffects, merge_effects
from tvm_ios.plan.placement import ConcatView

A, B, C, POOL, JOIN, END = range(6)
"""Operators: three convolutions and a pooling of tensor 0, what joins some, and what reads that."""


def network(joined, *, size=16, outputs=(6,)):
    """Operator i makes tensor i + 1, of `size` floats where it is no concatenation."""
    whole = size * len(joined)
    operators = [
        *((name, (0,), (number,)) for number, name in enumerate("abcp", 1)),
        ("concat", tuple(index + 1 for index in joined), (5,)),
        ("end", (5,), (6,)),
    ]
    return KernelGraph(
        tensors=tuple(
            GraphTensor((1, extent), "float32") for extent in (size, *[size] * 4, whole, size)
        ),
        operators=tuple(
            GraphOperator(name=name, kernel=name, inputs=inputs, outputs=made, flatten=False)
            for name, inputs, made in operators
        ),
        inputs=(("x", 0),),
        outputs=outputs,
    )


def effects(joined, members, *, whole=None, sliced=None, batch=1, **options):
    graph = network(joined, **options)
    size = options.get("size", 16) * 4
    view = ConcatView(tuple(range(0, size * len(joined), size))) if batch == 1 else None
    outputs = MergeOutputs(
        members=members, whole=whole, sliced=members if sliced is None else sliced
    )
    views = [None] * 4 + [view, None]
    return merge_effects(graph, views, outputs, contiguous=batch == 1)


def test_some_of_the_inputs_break_a_concatenation():
    assert effects((A, B, POOL), (A, B)) == MergeEffects(added=(JOIN,))
    assert effects((A, POOL), (A, B)) == MergeEffects(added=(JOIN,))


@pytest.mark.parametrize("members", [(A, B), (A, B, C), (C, A, B)])
def test_inputs_that_follow_each_other_leave_it_free(members):
    assert effects((A, B), members) == MergeEffects()


@pytest.mark.parametrize("members", [(B, A), (A, C, B)])
def test_inputs_in_another_order_break_it(members):
    assert effects((A, B), members) == MergeEffects(added=(JOIN,))


def test_others_are_not_touched():
    assert effects((C, POOL), (A, B)) == MergeEffects()


def test_at_batch_one_the_whole_was_free_already():
    assert effects((A, B), (A, B), whole=JOIN, sliced=()) == MergeEffects()


def test_at_larger_batches_the_whole_needs_no_kernel_any_more():
    found = effects((A, B), (A, B), whole=JOIN, sliced=(), batch=2)
    assert found == MergeEffects(removed=(JOIN,))
    found = effects((A, B), (A, B), whole=JOIN, sliced=(B,), batch=2)
    assert found == MergeEffects(removed=(JOIN,), copied=(B,))


def test_at_larger_batches_slices_are_copied_and_a_concatenation_stays_what_it_was():
    assert effects((A, B, POOL), (A, B), batch=2) == MergeEffects(copied=(A, B))


def test_pieces_that_are_not_aligned_are_copied():
    # Of 20 bytes each: the first slice is a view, the second one is not.
    found = effects((C, POOL), (A, B), size=5)
    assert found == MergeEffects(copied=(B,))
    found = effects((A, B), (A, B), size=5, whole=JOIN, sliced=())
    assert found == MergeEffects(removed=(JOIN,))


def test_an_output_of_the_network_is_copied():
    assert effects((A, POOL), (A, B), outputs=(6, 2)) == MergeEffects(added=(JOIN,), copied=(B,))
