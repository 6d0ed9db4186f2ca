"""Calls of cuDNN next to the kernels of built libraries, for prices: which there are, and names.

Between what Relay says of an operator and the stages that run it: it finds algorithms and names
kernels for the profile database, and prices nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.relay.cudnn_calls import cudnn_calls
from tvm_ios.runtime.cuda_stages import CudaStageRunner
from tvm_ios.runtime.cudnn_convolution import CudnnCall, CudnnOffload
from tvm_ios.runtime.cudnn_device import CudnnDevice

__all__ = ["BY_CUDNN", "CudnnKernels", "by_cudnn", "runs_by_cudnn"]

BY_CUDNN = "@cudnn-"
"""In a workload, begins the name of the call that computes it: version, algorithm, arithmetic."""


class CudnnKernels:
    """What cuDNN can compute of built libraries, on one GPU.

    Parameters
    ----------
    stages
        What runs stages of the libraries.
    cudnn
        cuDNN on the same GPU; it has to outlive the stages.
    offload
        What is allowed.
    """

    def __init__(self, stages: CudaStageRunner, cudnn: CudnnDevice, offload: CudnnOffload) -> None:
        self._stages = stages
        self._cudnn = cudnn
        self._offload = offload

    def as_text(self) -> str:
        """What computes, for people."""
        version = self._cudnn.library.version_text
        return f"cuDNN {version} {'with' if self._offload.tf32 else 'without'} TF32"

    def add(self, library: int, calls: Sequence[Any]) -> tuple[int, dict[int, str]]:
        """Make calls of cuDNN for the operators of a library, where there are such calls.

        Parameters
        ----------
        library
            Number of the library.
        calls
            Its kernel calls in Relay, in node order.

        Returns
        -------
        library, names
            The number by which operators run by cuDNN where they can, and for those what their
            kernels are called.

        Raises
        ------
        ExecutionError
            If the search of an algorithm fails.
        """
        able = {
            index: call
            for index, call in enumerate(cudnn_calls(calls, self._offload))
            if call is not None
        }
        found = self._cudnn.algorithms(call.convolution for call in able.values())
        version = self._cudnn.library.version_text
        ready: dict[int, CudnnCall] = {}
        names: dict[int, str] = {}
        for index, call in able.items():
            algorithm = found[call.convolution]
            if algorithm is not None:
                tf32 = "-tf32" if call.convolution.tf32 else ""
                ready[index] = replace(call, algorithm=algorithm)
                names[index] = f"{version}-algorithm{algorithm.number}{tf32}"
        return self._stages.with_cudnn(library, ready, self._cudnn), names


def by_cudnn(
    graph: OperatorGraph, plain: OperatorGraph, names: Mapping[int, str], chosen: Collection[int]
) -> OperatorGraph:
    """The graph with calls of cuDNN in place of the kernels of chosen operators.

    Parameters
    ----------
    graph
        Workloads with the code of their kernels.
    plain
        The same without.
    names
        What the calls are called.
    chosen
        Operators among those.
    """
    return OperatorGraph(
        graph.name,
        tuple(
            replace(operator, workload=f"{plain.operators[index].workload}{BY_CUDNN}{names[index]}")
            if index in chosen
            else operator
            for index, operator in enumerate(graph.operators)
        ),
    )


def runs_by_cudnn(graph: OperatorGraph, index: int) -> bool:
    """Whether an operator of such a graph is computed by cuDNN."""
    return BY_CUDNN in graph.operators[index].workload
