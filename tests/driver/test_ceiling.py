"""The ceiling of networks and files, against what is known of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import onnx
import pytest
import tvm

from tests.onnx_models import two_ways, write_two_ways
from tests.relay_modules import quantised_images
from tvm_ios.devices.traits import CPU, GPU
from tvm_ios.driver.ceiling import Arithmetic, graph_ceiling, module_graph, onnx_graph, told_ceiling
from tvm_ios.driver.model_source import ModelSource, from_onnx
from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.models import by_name
from tvm_ios.relay.extract import extract
from tvm_ios.relay.prepare import prepare


@pytest.mark.slow
def test_an_onnx_file_needs_no_tvm(tmp_path, run_python, project_root):
    path = write_two_ways(tmp_path, batch=1)
    code = (
        "import sys; from tvm_ios.driver.ceiling import *; "
        "from tvm_ios.driver.onnx_file import OnnxFile; "
        f"found = graph_ceiling(onnx_graph(OnnxFile.open({str(path)!r})), [2]); "
        "print(found.operators, 'tvm' in sys.modules)"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    assert done.stdout == "2 False\n", done.stderr


def test_both_doors_of_a_model_find_the_same_operators():
    model = two_ways(batch=1)
    by_onnx = onnx_graph(OnnxFile.open(model))
    by_relay = module_graph(*from_onnx(model))
    assert [each.predecessors for each in by_onnx.operators] == [
        each.predecessors for each in by_relay.operators
    ]
    assert [each.memory_bytes for each in by_onnx.operators if not each.view] == [
        each.memory_bytes for each in by_relay.operators if not each.view
    ]


def test_products_of_quantised_models_are_as_fast_as_those_of_bytes():
    graph = module_graph(quantised_images(), None)
    assert sum(each.whole for each in graph.operators) == 5
    in_float32, in_bytes, in_bfloat16 = (
        graph_ceiling(graph, [2], arithmetic=arithmetic).work_ns
        for arithmetic in (Arithmetic(), Arithmetic(in_bytes=True), Arithmetic(in_bfloat16=True))
    )
    assert in_bytes < in_bfloat16 < in_float32


def test_both_doors_find_products_of_bytes():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> net (float[2,3] x) => (float[2,2] y)
        <float step = {0.1}, uint8 zero = {7}, float[3,2] weight = {1, 2, 3, 4, 5, 6}> {
            whole = QuantizeLinear(x, step, zero)
            number = DequantizeLinear(whole, step, zero)
            y = MatMul(number, weight)
        }"""
    )
    for graph in (onnx_graph(OnnxFile.open(model)), module_graph(*from_onnx(model))):
        assert [each.whole for each in graph.operators] == [False, True]


def test_a_prepared_module_has_the_operators_it_was_fused_into(fork):
    prepared = prepare(*fork, "llvm")
    assert module_graph(prepared.module, None).operators == extract(prepared.module).graph.operators


def test_the_line_is_logged_and_empty_for_what_no_graph_executor_runs(fork, caplog):
    with caplog.at_level(logging.INFO, "tvm_ios"):
        line = told_ceiling(partial(module_graph, *fork), 2)
    assert f"ceiling: {line}" in caplog.messages
    assert "3 operators" in line
    assert "on 8 lanes" in told_ceiling(partial(module_graph, *fork), 8, GPU)
    for nothing in (None, tvm.IRModule()):
        assert told_ceiling(partial(module_graph, nothing, None), 2) == ""


def test_a_faster_lane_has_less_work(fork):
    graph = module_graph(*fork)
    typical, faster = (
        graph_ceiling(graph, [2], CPU, replace(CPU.speeds, flops_per_ns=speed))
        for speed in (CPU.speeds.flops_per_ns, 4 * CPU.speeds.flops_per_ns)
    )
    assert typical == graph_ceiling(graph, [2])
    assert faster.work_ns < typical.work_ns
    # A GPU's rates are its kind's.
    assert graph_ceiling(graph, [2], GPU, CPU.speeds) == graph_ceiling(graph, [2], GPU)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("randwire_small", "randwire"),
        pytest.param("nasnet_small", "nasnet_large", marks=pytest.mark.full),
    ],
)
def test_small_cells_have_more_to_gain_than_large_ones(small, large):
    """Measured gains are 1.45 against 1.03 (NASNet), and 1.51 against 1.02 (RandWire)."""
    gains = []
    for name in (small, large):
        source = ModelSource.of(name)
        (row,) = graph_ceiling(module_graph(source.mod, source.params), [2]).rows
        gains.append(row.at_most)
    assert gains[0] > 1.3 > 1.15 > gains[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["mobilenet_v2", "resnet_50", pytest.param("bert_base", marks=pytest.mark.full)],
)
def test_chains_have_next_to_nothing_to_gain(name):
    (row,) = graph_ceiling(module_graph(*by_name(name)()), [2]).rows
    assert row.at_most < 1.05
