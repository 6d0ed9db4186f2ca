"""Asks each contestant's own profiler for the time of every operator of a network.

A profiler's library is imported when it is asked: no environment has all of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from math import inf
from pathlib import Path
from typing import Any

from tvm_ios.host.machine import package_version
from tvm_ios.plan.trace import TraceEvent
from tvm_ios_lab.peers.build import exported_path
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Case
from tvm_ios_lab.peers.peer import Contestant, Peer
from tvm_ios_lab.peers.subject import Subject
from tvm_ios_lab.peers.together import Runner
from tvm_ios_lab.profiles.profile import OperatorTime, kind_of

__all__ = ["PROFILERS", "Asked", "Profiled", "reorder_us_of"]

_WARMUP_RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Request for a profile: what, and how."""

    subject: Subject
    case: Case
    folder: Path
    """Folder of the network."""
    threads: int
    runs: int
    build: str
    """Name of an exported build of ours; empty for one that is made for the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """Answer of a profiler."""

    operators: tuple[OperatorTime, ...]
    run_us: float
    version: tuple[str, str]
    reorder_us: float = 0.0


def _openvino(asked: Asked) -> Profiled:
    import openvino as ov  # noqa: PLC0415

    from tvm_ios_lab.peers.openvino_peer import make  # noqa: PLC0415

    plain = make(Contestant(Peer.OPENVINO, asked.threads), asked.case, asked.folder)
    run_us = _run_us(plain, asked.runs)
    core = ov.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": asked.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERF_COUNT": True,
    }
    model = core.compile_model(core.read_model(asked.folder / "network.onnx"), "CPU", settings)
    request = model.create_infer_request()
    request.set_input_tensor(ov.Tensor(asked.case.input, shared_memory=True))
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in range(_WARMUP_RUNS + asked.runs):
        request.infer(share_outputs=True)
        if run < _WARMUP_RUNS:
            continue
        for node in request.get_profiling_info():
            if node.status == ov.ProfilingInfo.Status.EXECUTED:
                code = f"{node.node_type} {node.exec_type}"
                times[node.node_name, code].append(node.real_time.total_seconds() * 1e6)
    return Profiled(
        operators=_operators(times), run_us=run_us, version=("openvino", ov.__version__)
    )


def _onnxruntime(asked: Asked) -> Profiled:
    import onnxruntime as ort  # noqa: PLC0415

    from tvm_ios_lab.peers.onnxruntime_peer import (  # noqa: PLC0415
        OnnxruntimeRunner,
        make,
        session_options,
    )

    contestant = Contestant(Peer.ONNXRUNTIME, asked.threads)
    run_us = _run_us(make(contestant, asked.case, asked.folder), asked.runs)
    settings = session_options(contestant)
    settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as scratch:
        settings.profile_file_prefix = f"{scratch}/profile"
        path = asked.folder / "network.onnx"
        session = ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        runner = OnnxruntimeRunner(session, asked.case)
        for _ in range(_WARMUP_RUNS + asked.runs):
            runner.run()
        events = json.loads(Path(session.end_profiling()).read_text())
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = f"{event['args']['node_index']} {event['name'].removesuffix('_kernel_time')}"
            times[name, _onnxruntime_code(event["args"])].append(float(event["dur"]))
    operators = _operators({key: taken[_WARMUP_RUNS:] for key, taken in times.items()})
    version = ("onnxruntime", metadata.version("onnxruntime"))
    return Profiled(operators=operators, run_us=run_us, version=version)


def _onnxruntime_code(event: Mapping[str, Any]) -> str:
    name = str(event["op_name"])
    shapes = [shape for types in event["input_type_shape"] for shape in types.values()]
    alone = name.endswith("Conv") and shapes[1][1] == 1 and shapes[0][1] > 1
    return f"{name} depthwise" if alone else name


def _ours(asked: Asked) -> Profiled:
    from tvm_ios_lab.peers.our_peer import OurRunner  # noqa: PLC0415

    with ExitStack() as stack:
        open_module = _our_build(asked)
        module = stack.enter_context(open_module(asked.threads))
        alone = stack.enter_context(open_module(1)) if asked.threads > 1 else None
        run_us = _run_us(OurRunner(module, asked.case), asked.runs)
        codes = {
            launch.operator: (
                launch.kernel
                if launch.call is None
                else f"{launch.kernel} {launch.call.descriptor.as_text()}"
            )
            for launch in module.plan.launches
        }
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        alone_us: dict[str, float] = {}
        for _ in range(asked.runs):
            for event in module.trace():
                times[event.operator, codes[event.operator]].append(_us(event))
            for event in () if alone is None else alone.trace():
                alone_us[event.operator] = min(_us(event), alone_us.get(event.operator, inf))
        reorder_us = 0.0
        if any(launch.call is not None for launch in module.plan.launches):
            with _said_by_onednn() as said:
                for _ in range(asked.runs):
                    module.run()
            reorder_us = reorder_us_of(said) / asked.runs
    return Profiled(
        operators=tuple(
            replace(each, alone_us=alone_us.get(each.name)) for each in _operators(times)
        ),
        run_us=run_us,
        version=("tvm-ios", package_version()),
        reorder_us=reorder_us,
    )


def _us(event: TraceEvent) -> float:
    return (event.end_ns - event.start_ns) / 1e3


def _our_build(asked: Asked) -> Callable[[int], Any]:
    """Function that opens a build of ours on so many threads."""
    import tvm_ios  # noqa: PLC0415
    from tvm_ios_lab.profiles.our_build import build_for_profile  # noqa: PLC0415

    if not asked.build:
        model = build_for_profile(asked.subject, asked.threads)
        return lambda lanes: model.executor(lanes=lanes)
    path = exported_path(asked.folder, asked.build)
    if not path.exists():
        raise PeerError(f"{path} is missing; make it: python -m tvm_ios_lab.peers.ours")
    return lambda lanes: tvm_ios.load(path, lanes=lanes)


PROFILERS: Mapping[str, Callable[[Asked], Profiled]] = {
    "openvino": _openvino,
    "onnxruntime": _onnxruntime,
    "ours": _ours,
}
"""Profilers that can be asked, by contestant."""


def reorder_us_of(lines: Iterable[str]) -> float:
    """Microseconds in all reorders that oneDNN tells of, which it does in milliseconds.

    Examples
    --------
    >>> reorder_us_of(["onednn_verbose,exec,cpu,reorder,jit:uni,undef,f32,,,1x3x8x8,0.25"])
    250.0
    """
    told = [line.rstrip().split(",") for line in lines if ",exec,cpu,reorder," in line]
    return sum(float(fields[-1]) for fields in told) * 1e3


@contextmanager
def _said_by_onednn() -> Iterator[list[str]]:
    """The lines that oneDNN writes to standard output meanwhile, one a primitive it runs."""
    from tvm_ios.runtime.libraries.onednn.library import load_onednn  # noqa: PLC0415

    library = load_onednn().library
    said: list[str] = []
    flush = ctypes.CDLL(None).fflush
    flush(None)
    before = os.dup(1)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 1)
        library.dnnl_set_verbose(1)
        try:
            yield said
        finally:
            library.dnnl_set_verbose(0)
            flush(None)
            os.dup2(before, 1)
            os.close(before)
        file.seek(0)
        said.extend(file)


def _run_us(runner: Runner, runs: int) -> float:
    taken = []
    for _ in range(_WARMUP_RUNS + runs):
        begin = time.perf_counter_ns()
        runner.run()
        taken.append((time.perf_counter_ns() - begin) / 1e3)
    return min(taken[_WARMUP_RUNS:])


def _operators(times: Mapping[tuple[str, str], list[float]]) -> tuple[OperatorTime, ...]:
    return tuple(
        OperatorTime(name=name, code=code, kind=kind_of(code), us=round(min(taken), 3))
        for (name, code), taken in times.items()
    )
