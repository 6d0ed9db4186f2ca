"""Verdicts on random quantised graphs: how many values are within a quantum of onnxruntime's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from tests.onnx.random_models.quantised_graphs import QuantisedGraph, quantised_graph
from tvm_ios.errors import TvmIosError

__all__ = ["JudgedGraph", "judged", "result_of"]

ROADS: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "onednn": (None, ("onednn",)),
    "kernels": (None, ()),
    "no VNNI": ("llvm -mcpu=core-avx2", ()),
}
"""Targets and operator libraries by name."""
MOST_APART = 1.01
"""Quanta that a value may lie from onnxruntime's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How far a compiled graph is from onnxruntime."""

    values: int
    beyond: int
    """Values that are more than a quantum apart."""
    largest: float
    """Largest distance in quanta."""
    calls: int
    """Calls of an operator library."""

    @property
    def is_right(self) -> bool:
        """True if at least 99.9 % of values are within a quantum."""
        return self.beyond <= self.values / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGraph:
    """What became of a graph by each road."""

    number: int
    form: str
    operators: Sequence[str]
    text: str
    """How the graph was quantised."""
    findings: Mapping[str, Finding]
    """Findings by road; none if the graph was refused."""
    refused: str
    """What was refused; empty otherwise."""

    @property
    def wrong(self) -> list[str]:
        """Texts on the roads that are wrong."""
        told = f"graph {self.number} {self.form} {list(self.operators)} {self.text}"
        return [
            f"{road}: {each.beyond} of {each.values} by up to {each.largest:.3g} quanta: {told}"
            for road, each in self.findings.items()
            if not each.is_right
        ]


def judged(seed: int, number: int) -> JudgedGraph | None:
    """What becomes of a graph; None where onnxruntime does not run it."""
    graph = quantised_graph(seed, number)
    try:
        wanted = _wanted_of(graph)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return None
    findings, refused = {}, ""
    try:
        findings = {road: _finding_of(graph, road, wanted) for road in ROADS}
    except TvmIosError as error:
        refused = str(error).splitlines()[0]
    return JudgedGraph(
        number=number,
        form=graph.form,
        operators=graph.operators,
        text=", ".join(f"{key}={each}" for key, each in graph.how.items()),
        findings=findings,
        refused=refused,
    )


def result_of(found: Sequence[JudgedGraph], *, seed: int, command: str) -> dict[str, Any]:
    """Right graphs by road, and what was wrong or refused, as it is published."""
    roads = {}
    for road, (target, libraries) in ROADS.items():
        of_road = [each.findings[road] for each in found if each.findings]
        roads[road] = {
            "target": target or "this processor",
            "libraries": list(libraries),
            "graphs": len(of_road),
            "right": sum(each.is_right for each in of_road),
            "values": sum(each.values for each in of_road),
            "values more than a quantum apart": sum(each.beyond for each in of_road),
            "calls of libraries": sum(each.calls for each in of_road),
        }
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("onnx", "onnxruntime")},
        "seed": seed,
        "roads": roads,
        "forms": Counter(each.form for each in found),
        "operators": Counter(name for each in found for name in each.operators),
        "wrong": [told for each in found for told in each.wrong],
        "refused": [each.refused for each in found if each.refused],
    }


def _wanted_of(graph: QuantisedGraph) -> np.ndarray:
    """What onnxruntime's CPU provider computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(
        graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, dict(graph.inputs))
    return np.asarray(found)


def _quantum_of(model: onnx.ModelProto, wanted: np.ndarray) -> float:
    """Scale of the output; a 255th of its range where it is of no whole numbers."""
    (output,) = model.graph.output
    for node in model.graph.node:
        if output.name in node.output and node.op_type == "DequantizeLinear":
            scales = [each for each in model.graph.initializer if each.name == node.input[1]]
            if scales:
                return float(numpy_helper.to_array(scales[0]).max())
    return max(float(np.ptp(wanted)), 1e-3) / 255


def _finding_of(graph: QuantisedGraph, road: str, wanted: np.ndarray) -> Finding:
    """How far the graph, compiled as a row of :data:`ROADS` says, is from onnxruntime."""
    import tvm_ios

    target, libraries = ROADS[road]
    shapes = {name: value.shape for name, value in graph.inputs.items()}
    mod, params = tvm_ios.from_onnx(graph.model, shapes)
    build: dict[str, Any] = {"libraries": libraries}
    options = tvm_ios.TuneOptions.of("balanced", build=build)
    compiled = tvm_ios.compile_schedule(mod, params, target, lanes=2, options=options)
    with compiled.executor() as executor:
        executor.run(**graph.inputs)
        found = executor.get_output(0).numpy()
        calls = sum(launch.call is not None for launch in executor.plan.launches)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    apart = np.abs(found - wanted) / _quantum_of(graph.model, wanted)
    beyond = int((~(apart <= MOST_APART)).sum())
    return Finding(values=apart.size, beyond=beyond, largest=float(apart.max()), calls=calls)
