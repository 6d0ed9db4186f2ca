from __future__ import annotations

import json

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay import testing

from tvm_ios.errors import ModelError
from tvm_ios.relay.build import build
from tvm_ios.relay.extract import extract, is_prepared, unlabelled_module
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.layout_text import without_layout_text


def extracted(nets, output, *inputs):
    module, params = nets.finish(output, *inputs)
    return extract(prepare(module, params, nets.target).module)


def assert_matches_tvm(extraction, target):
    """Names, edges and hashes against the graph JSON of stock TVM."""
    with without_layout_text(), tvm.transform.PassContext(opt_level=3):
        graph = json.loads(relay.build(extraction.module, target=target).get_graph_json())
    node_of = [i for i, node in enumerate(graph["nodes"]) if node["op"] == "tvm_op"]
    assert len(node_of) == len(extraction.graph)
    index_of = {node: index for index, node in enumerate(node_of)}
    for operator, node in zip(extraction.graph.operators, node_of, strict=True):
        found = graph["nodes"][node]
        assert found["attrs"]["hash"] == operator.workload.split("-")[1]
        sources = {index_of[source] for source, *_ in found["inputs"] if source in index_of}
        assert operator.predecessors == tuple(sorted(sources))


def test_the_graph_of_a_branching_network(nets):
    graph = nets.extraction().graph
    assert [operator.kind for operator in graph.operators] == [
        "layout_transform",
        "conv2d",
        "conv2d",
        "conv2d",
        "max_pool2d",
        "concatenate",
        "global_avg_pool2d",
        "batch_flatten",
        "dense",
    ]
    assert graph.operators[5].predecessors == (1, 2, 3, 4)
    assert graph.operators[2].flops == 2 * 32 * 64 * (16 * 9) + 2 * 32 * 64
    assert graph.operators[2].output_elements == 32 * 64
    assert [operator.kind for operator in graph.operators if operator.view] == ["batch_flatten"]
    assert all(operator.schedulable for operator in graph.operators)
    assert nets.extraction().coverage.as_text() == (
        "9 of 9 operators scheduled, 100.0% of the floating-point operations"
    )


def test_operators_are_the_nodes_of_tvm(nets):
    assert_matches_tvm(nets.extraction(), nets.target)


def test_a_module_without_labels_is_taken_as_it_is(nets):
    plain = extract(nets.prepared().module).module
    assert unlabelled_module(plain).same_as(plain)
    call = plain["main"].body
    labelled = relay.Call(call.op.with_attr("hash", "of another time"), call.args)
    module = tvm.IRModule.from_expr(relay.Function(plain["main"].params, labelled))
    stripped = unlabelled_module(relay.transform.InferType()(module))
    tvm.ir.assert_structural_equal(stripped["main"], plain["main"])


def test_equal_cells_have_equal_workloads_whatever_their_weights(nets):
    operators = nets.extraction().graph.operators
    assert operators[1].workload == operators[3].workload
    assert operators[1].workload != operators[2].workload
    assert operators[1].convolution == operators[3].convolution


def test_other_weights_and_names_give_the_same_fingerprint(nets):
    module, params = nets.branching(seed=7)
    other = extract(prepare(module, params, nets.target).module, name="other")
    assert other.graph.fingerprint() == nets.extraction().graph.fingerprint()
    assert other.graph.name == "other"


def test_another_batch_gives_another_fingerprint(nets):
    assert nets.extraction(3).graph.fingerprint() != nets.extraction().graph.fingerprint()


def test_convolutions_of_one_operand_name_the_same_operand(nets):
    records = [operator.convolution for operator in nets.extraction().graph.operators]
    assert {record.operand for record in records if record} == {"layout_transform_0"}


def test_several_outputs_are_a_barrier(nets):
    data = relay.var("data", shape=(2, 16, 8, 8))
    pieces = relay.split(relay.nn.softmax(data, axis=1), 2, axis=1)
    output = relay.Tuple([relay.nn.max_pool2d(pieces[0], (2, 2)), pieces[1]])
    extraction = extracted(nets, output, data)
    assert [operator.schedulable for operator in extraction.graph.operators] == [True, False, True]
    assert extraction.graph.operators[2].predecessors == (1,)
    assert extraction.coverage.barriers[0].reason == "several outputs"
    assert "2 of 3 operators scheduled" in extraction.coverage.as_text()
    assert_matches_tvm(extraction, nets.target)


def test_a_kernel_that_reads_a_whole_tuple(nets):
    data = relay.var("data", shape=(1, 8))
    values, indices = relay.topk(data, k=2)
    extraction = extracted(nets, values + relay.cast(indices, "float32"), data)
    assert extraction.graph.operators[1].predecessors == (0,)
    assert_matches_tvm(extraction, nets.target)


def test_a_module_without_operators(nets):
    data = relay.var("data", shape=(1, 8))
    module = tvm.IRModule.from_expr(relay.Function([data], data))
    extraction = extract(prepare(module, None, nets.target).module)
    assert len(extraction.graph) == 0
    assert not is_prepared(extraction.module)


def test_a_quantised_operator_is_a_barrier(nets):
    data = relay.var("data", shape=(4,))
    body = relay.qnn.op.quantize(data, relay.const(0.1), relay.const(0), out_dtype="int8")
    function = nets.fused(body, data)
    module = tvm.IRModule.from_expr(relay.Function([data], relay.Call(function, [data])))
    extraction = extract(module)
    assert extraction.coverage.barriers[0].reason == "the quantised operator qnn.quantize"
    assert not extraction.graph.operators[0].schedulable


def test_quantised_models_are_scheduled_once_tvm_has_lowered_them(nets):
    data = relay.var("data", shape=(1, 4, 4, 4))
    quantised = relay.qnn.op.quantize(data, relay.const(0.1), relay.const(0), out_dtype="int8")
    output = relay.qnn.op.dequantize(quantised, relay.const(0.1), relay.const(0))
    module = tvm.IRModule.from_expr(relay.Function([data], output))
    prepared = prepare(module, None, nets.target)
    assert extract(prepared.module).coverage.barriers == ()
    values = nets.random_input(relay.transform.InferType()(module))
    expected = np.clip(np.round(values / np.float32(0.1)), -128, 127) * np.float32(0.1)
    actual = nets.run(build(prepared.module, nets.target).factory, values)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_an_external_function_is_a_barrier(nets):
    data, inner = relay.var("data", shape=(4,)), relay.var("inner", shape=(4,))
    external = nets.fused(relay.tanh(inner), inner, Compiler="somewhere", global_symbol="there")
    variable = relay.GlobalVar("there")
    module = tvm.IRModule({variable: external})
    typed = relay.Function([data], relay.Call(variable, [data]), relay.TensorType((4,)))
    module["main"] = typed
    extraction = extract(module)
    assert extraction.coverage.barriers[0].reason == "compiled by an external code generator"


@pytest.mark.parametrize("case", ["if", "dynamic", "closure"])
def test_what_no_graph_executor_runs_has_no_operators(case):
    shape = (relay.Any(), 3) if case == "dynamic" else (2, 3)
    data, inner = relay.var("data", shape=shape), relay.var("inner", shape=(2, 3))
    if case == "if":
        condition = relay.less(relay.sum(data), relay.const(1.0))
        body = relay.If(condition, relay.tanh(data), relay.exp(data))
    elif case == "closure":
        body = relay.Call(relay.Function([inner], relay.tanh(inner)), [data])
    else:
        body = relay.tanh(data)
    coverage = extract(tvm.IRModule.from_expr(relay.Function([data], body))).coverage
    assert coverage.scheduled_operators == 0
    assert coverage.total_operators > 0
    assert coverage.barriers
    assert "0 of" in coverage.as_text()
    assert "0.0%" in coverage.as_text()


def test_a_module_that_is_not_fused_is_refused():
    data = relay.var("data", shape=(2, 3))
    module = tvm.IRModule.from_expr(relay.Function([data], relay.tanh(data)))
    assert not is_prepared(module)
    with pytest.raises(ModelError, match=r"operator 'tanh', which is not fused.*relay\.prepare"):
        extract(module)


def test_a_module_without_main_is_refused():
    assert not is_prepared(tvm.IRModule())
    with pytest.raises(ModelError, match="no function 'main'"):
        extract(tvm.IRModule())


def test_a_reshape_is_a_view(nets):
    data = relay.var("data", shape=(1, 4, 2, 2))
    extraction = extracted(nets, relay.nn.softmax(relay.nn.batch_flatten(data)), data)
    assert [view is not None for view in extraction.views] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", pytest.param("resnet", marks=pytest.mark.full)])
def test_real_networks_match_the_nodes_of_tvm(nets, name):
    if name == "squeezenet":
        module, params = testing.squeezenet.get_workload(image_shape=(3, 64, 64), num_classes=10)
    else:
        module, params = testing.resnet.get_workload(
            num_layers=18, image_shape=(3, 32, 32), num_classes=10
        )
    extraction = extract(prepare(module, params, nets.target).module)
    assert_matches_tvm(extraction, nets.target)
    assert extraction.coverage.barriers == ()
