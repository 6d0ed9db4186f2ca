"""Parts of a graph of kernels that are run by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph


@pytest.fixture
def graph():
    """x -> split (two outputs) -> reshape of the second."""
    split = GraphOperator(
        name="split", kernel="fused_split", inputs=(0,), outputs=(1, 2), flatten=False
    )
    reshape = GraphOperator(name="reshape", kernel=None, inputs=(2,), outputs=(3,), flatten=True)
    return KernelGraph(
        tensors=tuple(GraphTensor(shape, "float32") for shape in ((2, 4), (1, 3), (1, 4), (4,))),
        operators=(split, reshape),
        inputs=(("x", 0),),
        outputs=(3, 1),
    )


@pytest.mark.parametrize(("index", "outputs"), [(0, (1, 2)), (1, (1,))])
def test_an_operator_alone_reads_inputs(graph, index, outputs):
    alone = graph.alone(index)
    whole = graph.operators[index]
    assert alone.operators == (replace(whole, inputs=(0,), outputs=outputs),)
    assert alone.outputs == outputs
    assert alone.inputs == (("input_0", 0),)
    read = [*whole.inputs, *whole.outputs]
    assert alone.tensors == tuple(graph.tensors[tensor] for tensor in read)


def test_an_operator_that_reads_a_tensor_twice_is_left_so(graph):
    added = replace(graph.operators[1], kernel="fused_add", inputs=(2, 1, 2))
    alone = replace(graph, operators=(graph.operators[0], added)).alone(1)
    assert alone.operators[0].inputs == (0, 1, 0)
    assert alone.operators[0].outputs == (2,)
    assert [name for name, _ in alone.inputs] == ["input_0", "input_1"]
    assert [tensor.shape for tensor in alone.tensors] == [(1, 4), (1, 3), (4,)]


def test_without_outputs_nothing_computed_is_one(graph):
    bare = graph.without_outputs()
    assert bare == replace(graph, outputs=(0,))
