from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, inception_block
from tests.relax.relax.modules import Branches
from tvm_ios.relax.kernel_text import kernel_text
from tvm_ios.relax.prepare import prepare


def test_names_do_not_count():
    original = Branches["twice"]
    other = original.with_attr("global_symbol", "another").with_attr("op_pattern", 0)
    renamed = tvm.script.from_source(
        original.script().replace("vi", "row").replace("b[", "out[").replace("b: ", "out: ")
    )
    assert kernel_text(original) == kernel_text(other) == kernel_text(renamed)


def test_what_is_computed_counts():
    texts = {kernel_text(Branches[name]) for name in ("twice", "raised", "added")}
    assert len(texts) == 3
    changed = Branches["twice"].script().replace("T.float32(2.0)", "T.float32(3.0)")
    assert kernel_text(tvm.script.from_source(changed)) != kernel_text(Branches["twice"])


def test_another_shape_is_another_kernel():
    changed = Branches["twice"].script().replace("(4, 8)", "(4, 9)").replace("4, 8", "4, 9")
    assert kernel_text(tvm.script.from_source(changed)) != kernel_text(Branches["twice"])


@pytest.mark.slow(1)
def test_workloads_are_those_of_another_process(run_python, project_root):
    module, _ = inception_block()
    workloads = [each.workload for each in prepare(module, None, TARGET).extraction.graph.operators]
    code = (
        "from tests.relax.networks import TARGET, inception_block\n"
        "from tvm_ios.relax.prepare import prepare\n"
        "graph = prepare(inception_block()[0], None, TARGET).extraction.graph\n"
        "print(*(each.workload for each in graph.operators))\n"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root), TVM_IOS_TVM="path")
    assert done.stdout.split() == workloads, done.stderr


def test_weights_do_not_count():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(relax.op.matmul(x, relax.const(np.ones((4, 4), "float32"))))
            result = relax.op.matmul(first, relax.const(np.zeros((4, 4), "float32")))
            whole = builder.emit_output(result)
        builder.emit_func_output(whole)
    first, second = prepare(builder.get(), None, TARGET).extraction.graph.operators
    assert first.workload == second.workload
    assert (first.flops, first.memory_bytes, first.output_elements) == (128, 192, 16)
