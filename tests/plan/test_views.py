"""Views are taken where they are legal, and only there."""

from __future__ import annotations

import pytest

from tvm_ios.errors import PlanError
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.plan.views import resolve_views


def graph(sizes, operators, outputs):
    """Tensor 0 is the input; operators are (kernel, inputs, outputs); sizes count float32."""
    return KernelGraph(
        tensors=tuple(GraphTensor((1, size), "float32") for size in sizes),
        operators=tuple(
            GraphOperator(
                name=f"o{index}", kernel=kernel, inputs=inputs, outputs=outputs, flatten=False
            )
            for index, (kernel, inputs, outputs) in enumerate(operators)
        ),
        inputs=(("x", 0),),
        outputs=outputs,
    )


TWO = [("a", (0,), (1,)), ("b", (0,), (2,))]
JOIN = ("concat", (1, 2), (3,))
BOTH = ConcatView((0, 64))


def test_a_concatenation_disappears():
    found = resolve_views(graph([16, 16, 16, 32], [*TWO, JOIN], (3,)), [None, None, BOTH])
    assert found.dropped == {2}
    assert found.location[1:] == ((3, 0), (3, 64), (3, 0))


@pytest.mark.parametrize(
    ("case", "view"),
    [
        (graph([16, 16, 16, 32], [*TWO, JOIN], (3, 1)), BOTH),  # a part is an output
        (graph([16, 4, 16, 20], [*TWO, JOIN], (3,)), ConcatView((0, 16))),  # not aligned
        (graph([16, 16, 16, 32], [*TWO, ("concat", (1, 1), (3,))], (3,)), BOTH),  # twice the same
        (graph([16, 16, 16, 32], [*TWO, ("concat", (0, 1), (3,))], (3,)), BOTH),  # an input
    ],
)
def test_concatenations_that_must_stay(case, view):
    found = resolve_views(case, [None, None, view])
    assert found.dropped == frozenset()
    assert found.location == tuple((tensor, 0) for tensor in range(4))


def test_equal_arguments_that_tvm_passes_once_keep_the_kernel():
    case = graph([16, 16, 32], [("a", (0,), (1,)), ("concat", (1,), (2,))], (2,))
    assert resolve_views(case, [None, BOTH]).dropped == frozenset()


def test_a_tensor_joins_one_concatenation_only():
    operators = [*TWO, JOIN, ("concat", (2, 1), (4,))]
    found = resolve_views(graph([16, 16, 16, 32, 32], operators, (3, 4)), [None, None, BOTH, BOTH])
    assert found.dropped == {2}


def test_concatenations_nest():
    operators = [*TWO, JOIN, ("c", (3,), (4,)), ("concat", (4, 3), (5,))]
    case = graph([16, 16, 16, 32, 16, 48], operators, (5,))
    found = resolve_views(case, [None, None, BOTH, None, BOTH])
    assert found.dropped == {2, 4}
    assert found.location[1:] == ((5, 64), (5, 128), (5, 64), (5, 0), (5, 0))


def test_slices_disappear_and_keep_their_place_in_a_concatenation():
    operators = [("a", (0,), (1,)), ("s", (1,), (2,)), ("b", (2,), (3,)), ("concat", (3, 1), (4,))]
    case = graph([16, 32, 16, 16, 48], operators, (4,))
    found = resolve_views(case, [None, SliceView(64), None, ConcatView((0, 64))])
    assert found.dropped == {1, 3}
    assert found.location[1:4] == ((4, 64), (4, 128), (4, 0))


@pytest.mark.parametrize(
    ("operators", "outputs", "offset"),
    [
        ([("a", (0,), (1,)), ("s", (1,), (2,))], (2,), 64),  # an output
        ([("a", (0,), (1,)), ("s", (1,), (2,)), ("b", (2,), (3,))], (3,), 32),  # not aligned
        ([("a", (0,), (1,)), ("s", (0,), (2,)), ("b", (2,), (3,))], (3,), 64),  # of an input
        ([("a", (0,), (1,)), ("s", (1,), (2,)), (None, (2,), (3,))], (3,), 64),  # reshaped output
    ],
)
def test_slices_that_must_stay(operators, outputs, offset):
    views = [None, SliceView(offset), None][: len(operators)]
    found = resolve_views(graph([32, 32, 16, 16], operators, outputs), views)
    assert 1 not in found.dropped


def test_reshapes_always_alias():
    operators = [(None, (0,), (1,)), ("a", (1,), (2,)), (None, (2,), (3,))]
    found = resolve_views(graph([16] * 4, operators, (3,)), [None] * 3)
    assert found.dropped == {0, 2}
    assert found.location == ((0, 0), (0, 0), (2, 0), (2, 0))


MERGED = [
    ("merged", (0,), (1,)),
    ("s", (1,), (2,)),
    ("s", (1,), (3,)),
    ("s", (1,), (4,)),
]
CUT = [None, SliceView(0), SliceView(64), SliceView(128)]


def merged_and(joined, *, outputs=(6,), sizes=(16, 48, 16, 16, 16), size=32):
    """Three slices of a merged convolution, tensors 2 to 4, some of them joined to tensor 5."""
    operators = [*MERGED, ("concat", joined, (5,)), ("d", (5,), (6,))]
    return graph([*sizes, size, 16], operators, outputs)


@pytest.mark.parametrize(
    ("joined", "size", "where"), [((2, 3, 4), 48, 0), ((2, 3), 32, 0), ((3, 4), 32, 64)]
)
def test_pieces_that_lie_one_after_another_are_their_concatenation(joined, size, where):
    view = ConcatView((0, 64, 128)[: len(joined)])
    found = resolve_views(merged_and(joined, size=size), [*CUT, view, None])
    assert found.dropped == {1, 2, 3, 4}
    assert found.location[1:6] == ((1, 0), (1, 0), (1, 64), (1, 128), (1, where))


@pytest.mark.parametrize("joined", [(3, 2), (2, 4), (4, 3)])
def test_pieces_in_another_order_or_with_gaps_are_copied(joined):
    found = resolve_views(merged_and(joined), [*CUT, BOTH, None])
    assert found.dropped == {1, 2, 3}
    assert found.location[5] == (5, 0)


def test_a_concatenation_that_is_an_output_has_memory_of_its_own():
    found = resolve_views(merged_and((2, 3), outputs=(6, 5)), [*CUT, BOTH, None])
    assert found.dropped == {1, 2, 3}


def test_a_concatenation_in_place_moves_with_what_it_is_a_piece_of():
    operators = [*MERGED, ("concat", (3, 4), (5,)), ("d", (5,), (6,)), ("concat", (1, 6), (7,))]
    found = resolve_views(
        graph([16, 48, 16, 16, 16, 32, 16, 64], operators, (7,)),
        [*CUT, BOTH, None, ConcatView((0, 192))],
    )
    assert found.dropped == {1, 2, 3, 4, 6}
    assert found.location[1:7] == ((7, 0), (7, 0), (7, 64), (7, 128), (7, 64), (7, 192))


def test_a_slice_outside_its_input_is_refused():
    case = graph([16, 16, 16], [("a", (0,), (1,)), ("s", (1,), (2,))], (2,))
    with pytest.raises(PlanError, match="'o1': a slice of 64 bytes at byte 64"):
        resolve_views(case, [None, SliceView(64)])


def test_a_concatenation_with_holes_is_refused():
    case = graph([16, 16, 16, 48], [*TWO, JOIN], (3,))
    with pytest.raises(PlanError, match="'o2': inputs of .* do not tile"):
        resolve_views(case, [None, None, BOTH])
