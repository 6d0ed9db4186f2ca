"""Nodes become the operators that a compiler would make of them."""

from __future__ import annotations

from tvm_ios.core.fusing import ModelNode, NodeRole, fused_graph

COMPUTES, FOLLOWS, VIEW = NodeRole.COMPUTES, NodeRole.FOLLOWS, NodeRole.VIEW


def node(kind, role, *inputs, elements=10, is_output=False):
    return ModelNode(
        kind=kind,
        role=role,
        inputs=dict.fromkeys(inputs, 4 * elements),
        flops=100 if role is COMPUTES else 1,
        own_bytes=7 if role is COMPUTES else 0,
        output_bytes=4 * elements,
        output_elements=elements,
        is_output=is_output,
    )


def members(*nodes):
    """Kind, predecessors and operations of each operator."""
    graph = fused_graph("g", nodes)
    return [(each.name, each.predecessors, each.flops) for each in graph.operators]


def test_what_is_element_wise_belongs_to_what_it_follows():
    assert members(
        node("conv", COMPUTES),
        node("add", FOLLOWS, 0),
        node("relu", FOLLOWS, 1),
        node("conv", COMPUTES, 2),
    ) == [("conv_0", (), 102), ("conv_1", (0,), 100)]


def test_bytes_are_those_that_cross_the_operator():
    graph = fused_graph("g", [node("conv", COMPUTES), node("add", FOLLOWS, 0)])
    (operator,) = graph.operators
    assert operator.memory_bytes == 7 + 40
    assert operator.output_elements == 10


def test_a_gate_of_two_ways_is_one_operator():
    """A product of a value and its sigmoid, as SiLU is written."""
    assert members(
        node("conv", COMPUTES), node("sigmoid", FOLLOWS, 0), node("mul", FOLLOWS, 0, 1)
    ) == [("conv_0", (), 102)]


def test_what_somebody_else_reads_stays():
    conv, relu = node("conv", COMPUTES), node("relu", FOLLOWS, 0)
    assert members(conv, relu, node("pool", COMPUTES, 0)) == [
        ("conv_0", (), 100),
        ("relu_0", (0,), 1),
        ("pool_0", (0,), 100),
    ]
    result = node("conv", COMPUTES, is_output=True)
    assert [name for name, *_ in members(result, relu)] == ["conv_0", "relu_0"]


def test_a_sum_of_two_convolutions_joins_one_and_waits_for_the_other():
    assert members(node("conv", COMPUTES), node("conv", COMPUTES), node("add", FOLLOWS, 0, 1)) == [
        ("conv_0", (), 100),
        ("conv_1", (0,), 101),
    ]


def test_a_broadcast_to_a_larger_tensor_is_an_operator_of_its_own():
    small = node("conv", COMPUTES, elements=2)
    assert len(members(small, node("mul", FOLLOWS, 0))) == 2


def test_views_need_no_kernel_and_pass_on_who_made_what_they_are_of():
    graph = fused_graph(
        "g",
        [
            node("conv", COMPUTES),
            node("reshape", VIEW, 0),
            node("relu", FOLLOWS, 1),
            node("conv", COMPUTES, 2),
        ],
    )
    assert [each.view for each in graph.operators] == [False, True, False, False]
    assert [each.predecessors for each in graph.operators] == [(), (0,), (1,), (2,)]
