"""Prices of calls of cuDNN and of kernels are kept apart."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.profile_key import stage_profile_key
from tvm_ios.cudnn_pricing import by_cudnn, runs_by_cudnn


def operator(name: str) -> Operator:
    return Operator(
        name=name,
        kind="conv2d",
        predecessors=(),
        workload=f"conv2d-{name}",
        flops=1,
        memory_bytes=1,
        output_elements=1,
    )


def test_version_algorithm_and_arithmetic_are_in_the_key_and_the_kernel_of_tvm_is_not() -> None:
    plain = OperatorGraph("net", (operator("a"), operator("b")))

    def key(name: str, code: str = "code") -> str:
        whole = OperatorGraph(
            "net",
            tuple(replace(each, workload=f"{each.workload}@{code}") for each in plain.operators),
        )
        graph = by_cudnn(whole, plain, {0: name}, [0])
        assert (runs_by_cudnn(graph, 0), runs_by_cudnn(graph, 1)) == (True, False)
        assert runs_by_cudnn(whole, 0) is False
        assert graph.operators[1] == whole.operators[1]
        assert stage_profile_key(whole, Stage(((0,),))) != stage_profile_key(graph, Stage(((0,),)))
        return stage_profile_key(graph, Stage(((0,),)))

    names = ["9.10.2-algorithm1", "9.10.2-algorithm6", "9.11.0-algorithm1"]
    names += [f"{name}-tf32" for name in names]
    assert len({key(name) for name in names}) == len(names)
    assert key(names[0]) == key(names[0], "another")
