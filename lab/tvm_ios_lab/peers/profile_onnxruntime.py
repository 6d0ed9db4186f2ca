"""Say where onnxruntime's time goes: by kind of operator, and convolution by convolution.

::

    FOLDER/bin/python -m tvm_ios_lab.peers.profile_onnxruntime squeezenet inception_v3
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from tvm_ios.errors import TvmIosError
from tvm_ios.host import default_lanes, processor_name
from tvm_ios.report.table import Table
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Case, Node, Operator, read_case
from tvm_ios_lab.peers.peak import measure_peak
from tvm_ios_lab.peers.subject import EXPORTED, subject_argument

__all__ = ["Kernel", "convolution_table", "kernels_of_trace", "kind_table", "main"]

_WARMUP_RUNS, _RUNS = 10, 40
_NAME_ENDS = ("_kernel_time", "_nchwc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Node of onnxruntime's optimised graph."""

    kind: str
    """Operator of onnxruntime; a convolution's window, and ``depthwise``, are added."""
    run_us: float
    """Median over the runs."""
    reads: tuple[tuple[int, ...], ...]
    """Shapes, weights included, channels padded to onnxruntime's blocks."""
    node: Node | None
    """The convolution it computes; None for all others."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates the network asks for: padding is not counted."""
        return self.node.macs if self.node else 0


def kernels_of_trace(events: Iterable[Mapping[str, Any]], case: Case) -> tuple[Kernel, ...]:
    """Kernels of the events of onnxruntime's profiler, the first runs left out."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_NAME_ENDS[0]):
            runs[event["args"]["node_index"]].append(event)
    nodes = {node.output: node for node in case.network.nodes}
    kernels = []
    for taken in runs.values():
        if len(taken) != _WARMUP_RUNS + _RUNS:
            raise PeerError(
                f"onnxruntime's profile has {len(taken)} runs of {taken[0]['name']}, made were "
                f"{_WARMUP_RUNS + _RUNS}; its format has changed, see profile_onnxruntime.py"
            )
        kernels.append(_kernel(taken, nodes))
    return tuple(kernels)


def kind_table(kernels: Sequence[Kernel], peak_gflops: float) -> Table:
    """Table with a row a kind: number, time, share of all, and the speed of convolutions."""
    kinds: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        kinds[kernel.kind].append(kernel)
    total_us = sum(kernel.run_us for kernel in kernels)
    rows = []
    for kind, members in kinds.items():
        time_us = sum(kernel.run_us for kernel in members)
        gflops = 2 * sum(kernel.macs for kernel in members) / time_us / 1e3
        speed = (f"{gflops:.1f}", f"{gflops / peak_gflops:.0%}") if gflops else ("-", "-")
        rows.append((time_us, kind, str(len(members)), *speed))
    rows.sort(reverse=True)
    return Table(
        header=("kind", "nodes", "ms", "share", "GFLOP/s", "of peak"),
        rows=tuple(
            (kind, number, f"{time_us / 1e3:.3f}", f"{time_us / total_us:.1%}", *speed)
            for time_us, kind, number, *speed in rows
        ),
    )


def convolution_table(kernels: Sequence[Kernel], peak_gflops: float) -> Table:
    """Table with a row a convolution, in the order they run; equal ones are taken together."""
    same: dict[tuple[str, ...], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.node is not None:
            same[(kernel.kind, *map(str, kernel.reads))].append(kernel)
    rows = []
    for members in same.values():
        first = members[0]
        run_us = median(kernel.run_us for kernel in members)
        gflops = 2 * first.macs / run_us / 1e3
        rows.append(
            (
                first.kind,
                str(len(members)),
                _shape(first.reads[0]),
                _shape(first.node.shape if first.node else ()),
                "yes" if len(first.reads) > 3 else "no",
                f"{run_us / 1e3:.3f}",
                f"{gflops:.1f}",
                f"{gflops / peak_gflops:.0%}",
            )
        )
    header = ("kind", "nodes", "reads", "makes", "adds", "ms each", "GFLOP/s", "of peak")
    return Table(header=header, rows=tuple(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile networks and print their tables; 0 when all is done."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.profile_onnxruntime",
        description="Print where the time of onnxruntime goes; it is a little longer than without "
        "its profiler.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "networks",
        nargs="+",
        type=subject_argument,
        metavar="NAME[:BATCH]",
        help="networks that export wrote",
    )
    add("--folder", type=Path, default=EXPORTED, help="what export wrote")
    add("--threads", type=int, default=default_lanes(), help="of onnxruntime")
    options = parser.parse_args(arguments)
    try:
        cases = [_described_case(options.folder / each.stem) for each in options.networks]
        peak = measure_peak()
        gflops = peak.of_all_cores if options.threads > 1 else max(peak.of_each_core)
        print(
            f"{processor_name()}, {options.threads} threads, peak {gflops:.1f} GFLOP/s, "
            f"onnxruntime {metadata.version('onnxruntime')}"
        )
        for subject, case in zip(options.networks, cases, strict=True):
            folder = options.folder / subject.stem
            kernels = kernels_of_trace(_trace(case, folder, options.threads), case)
            total_us = sum(kernel.run_us for kernel in kernels)
            print(f"\n{subject.stem}: {len(kernels)} nodes, {total_us / 1e3:.3f} ms in them\n")
            print(kind_table(kernels, gflops).as_text(), end="\n\n")
            print(convolution_table(kernels, gflops).as_text(), flush=True)
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _described_case(folder: Path) -> Case:
    case = read_case(folder)
    if not case.network.is_described:
        raise PeerError(
            f"{folder} was imported, and nobody has described its convolutions; see its operators "
            "by `python -m tvm_ios_lab.profiles.measure`"
        )
    return case


def _trace(case: Case, folder: Path, threads: int) -> list[dict[str, Any]]:
    # The tables above need no peer.
    import onnxruntime as ort  # noqa: PLC0415

    from tvm_ios_lab.peers.onnx_file import current_onnx  # noqa: PLC0415
    from tvm_ios_lab.peers.onnxruntime_peer import (  # noqa: PLC0415
        OnnxruntimeRunner,
        session_options,
    )
    from tvm_ios_lab.peers.peer import Contestant, Peer  # noqa: PLC0415

    session_settings = session_options(Contestant(Peer.ONNXRUNTIME, threads))
    session_settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as scratch:
        session_settings.profile_file_prefix = f"{scratch}/profile"
        session = ort.InferenceSession(
            current_onnx(case, folder), session_settings, providers=["CPUExecutionProvider"]
        )
        runner = OnnxruntimeRunner(session, case)
        for _ in range(_WARMUP_RUNS + _RUNS):
            runner.run()
        events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    return events


def _kernel(taken: Sequence[Mapping[str, Any]], nodes: Mapping[str, Node]) -> Kernel:
    first = taken[0]
    name = first["name"]
    for end in _NAME_ENDS:
        name = name.removesuffix(end)
    reads = tuple(
        tuple(shape) for kinds in first["args"]["input_type_shape"] for shape in kinds.values()
    )
    kind, node = first["args"]["op_name"], None
    if kind.endswith("Conv"):
        node = _convolution_behind(name, reads[1], nodes)
        kind = _convolution_kind(kind, node)
    return Kernel(
        kind=kind,
        run_us=median(float(event["dur"]) for event in taken[_WARMUP_RUNS:]),
        reads=reads,
        node=node,
    )


def _convolution_behind(name: str, weight: tuple[int, ...], nodes: Mapping[str, Node]) -> Node:
    """The convolution that onnxruntime fused with what follows it, whose output it is named after.

    Where a sum of two convolutions is fused, it is told by its weight, channels padded.
    """
    behind = [nodes[name]]
    for node in behind:  # grows
        if node.operator is Operator.CONVOLUTION:
            asked = (node.shape[1], node.channels_read, *node.kernel)
            if asked[2:] == weight[2:] and asked[0] <= weight[0] and asked[1] <= weight[1]:
                return node
        elif node.operator in (Operator.RELU, Operator.ADD):
            behind.extend(nodes[operand] for operand in node.inputs if operand in nodes)
    raise PeerError(
        f"no convolution of the network makes {name} with weights {weight}; onnxruntime names its "
        "nodes in another way now, see profile_onnxruntime.py"
    )


def _convolution_kind(kind: str, node: Node) -> str:
    depthwise = " depthwise" if node.groups > 1 else ""
    strided = f" stride {node.strides[0]}" if max(node.strides) > 1 else ""
    return f"{kind}{depthwise} {node.kernel[0]}x{node.kernel[1]}{strided}"


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape[1:]))


if __name__ == "__main__":
    sys.exit(main())
