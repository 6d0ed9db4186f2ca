"""Steps that compare: what PyTorch can run, whether outputs are right, and who is faster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_ios.errors import CostError
from tvm_ios.host.gpu import read_clocks
from tvm_ios.measure.compare import CompareOptions, compare
from tvm_ios.measure.comparison import LEAST_ROUNDS, Comparison
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import TimedRuns
from tvm_ios.report.chrome_trace import write_chrome_trace
from tvm_ios.runtime.base.sample_inputs import sample_tensor
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios.runtime.gpu.device import CudaDevice
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.gpu.agenda import Case, Step
from tvm_ios_lab.gpu.contestants import Entry, entries, opened, stock_runs
from tvm_ios_lab.gpu.names import AUTOTUNED, GRAPH, IOS, STREAMS
from tvm_ios_lab.gpu.torch_process import MODES, TorchProcess
from tvm_ios_lab.gpu.workplace import Workplace
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import TOLERANCE, Floats, read_case, relative_error

__all__ = ["measure", "outputs", "prove", "torch"]

_COMPILE_SHARE = 0.8
"""Share of the time left that PyTorch may take to prepare a mode."""
_LONGEST_PREPARE_S = 180.0
"""Most seconds to prepare a mode; `Settings` has the limit of max-autotune."""
_ROUNDS_SHARE = 0.7
"""Share of the time left that all rounds may take; there are fewer of them else."""
_QUICK = {"rounds": 6, "min_repeat_ms": 0.02}


def torch(place: Workplace, step: Step) -> dict[str, Any]:
    """Prepare PyTorch's modes once: what fails is told here, and what is compiled is kept."""
    found: dict[str, Any] = {"modes": {}, "left_out": {}}
    for mode in MODES:
        if mode == AUTOTUNED and place.settings.compile_s <= 0:
            continue
        with _torch(place, step.case) as process:
            try:
                found["versions"] = process.versions()
                found["modes"][mode] = process.prepare(mode, _prepare_limit_s(place, mode))
            except PeerError as error:
                found["left_out"][mode] = str(error)
    return found


def outputs(place: Workplace, step: Step) -> dict[str, Any]:
    """The error of every contestant, and whether streams and graph give the same bits."""
    case = read_case(place.case_folder(step.case))
    found: dict[str, Floats] = {}
    fallbacks = {}
    for entry in entries(place, step.case, step.kernels):
        with opened(place, entry, case.network.input, case.input) as modules:
            for way, module in modules.items():
                for _ in range(2):  # the second one is the graph's own
                    module.run()
                found[entry.name(way)] = module.get_output(0).numpy()
                if module.fallback is not None:
                    fallbacks[entry.name(way)] = module.fallback
    return prove(found, case.reference) | {"fallbacks": fallbacks}


def prove(found: Mapping[str, Floats], reference: Floats) -> dict[str, Any]:
    """Errors of outputs, and which of them are wrong.

    Parameters
    ----------
    found
        Outputs by contestant.
    reference
        Output in float64.

    Returns
    -------
    data
        ``errors`` by contestant, relative to the largest value; ``wrong`` are those above the
        tolerance, ``unequal`` the graphs whose bits are not those of their streams.
    """
    errors = {who: relative_error(output, reference) for who, output in found.items()}
    unequal = []
    for who, output in found.items():
        other = found.get(who.removesuffix(GRAPH) + STREAMS)
        if who.endswith(GRAPH) and other is not None and output.tobytes() != other.tobytes():
            unequal.append(who)
    return {
        "errors": errors,
        "largest_error": max(errors.values(), default=0.0),
        "wrong": [who for who, error in errors.items() if not error <= TOLERANCE],
        "unequal": unequal,
    }


def measure(place: Workplace, step: Step) -> dict[str, Any]:
    """Time everything in one interleaved run; keep the rounds, and traces of IOS-both."""
    wrong, notes = _unproved(place, step)
    name, image = _input(place, step.case)
    settings = place.settings
    options = CompareOptions(
        **(_QUICK if settings.quick else {"rounds": settings.rounds}), mode=ModeOptions(slow_ns=0)
    )
    with ExitStack() as stack:
        runs: dict[str, TimedRuns] = {}
        for entry in entries(place, step.case, step.kernels):
            modules = stack.enter_context(opened(place, entry, name, image))
            if entry.who == IOS:
                _trace(place, step, entry, modules[STREAMS])
            runs |= {entry.name(way): module.time_ns for way, module in modules.items()}
        for who in wrong & runs.keys():
            del runs[who]
            notes.append(f"left out, since its output is wrong: {who}")
        runs |= stack.enter_context(stock_runs(place.stock(step.case), name, image))
        runs |= stack.enter_context(_torch_runs(place, step.case, notes))
        comparison = _compared(runs, options, notes, place.left_s)
        clocks = _clocks()
    record = _record(place, step, comparison, [*notes, clocks])
    path = place.folder / "results" / f"{step.case.name}.{'+'.join(step.kernels)}.json"
    write_text(path, record.to_json() + "\n")
    return {"record": str(path.relative_to(place.folder)), "notes": notes}


def _unproved(place: Workplace, step: Step) -> tuple[set[str], list[str]]:
    if not place.settings.proof:
        return set(), ["outputs were not proved"]
    about = "+".join(step.kernels)
    data = place.ledger.data(f"{step.case.name}.outputs.{about}")
    return {*data.get("wrong", ()), *data.get("unequal", ())}, []


def _input(place: Workplace, case: Case) -> tuple[str, Floats]:
    """The input that was proved; else small numbers."""
    folder = place.case_folder(case)
    if (folder / "network.json").exists():
        known = read_case(folder)
        return known.network.input, known.input
    module, _ = place.network(case)
    variable = module["main"].params[0]
    shape = tuple(int(extent) for extent in variable.checked_type.shape)
    return variable.name_hint, sample_tensor(np.random.default_rng(0), shape, "float32")


def _compared(
    runs: dict[str, TimedRuns], options: CompareOptions, notes: list[str], left_s: float
) -> Comparison:
    """Comparison of those that run once alone; who fails there is left out and ends nothing."""
    round_s = 0.0
    for who in list(runs):
        try:
            runs[who](1)
            run_s = runs[who](1) / 1e9
            round_s += options.warmup * run_s + max(run_s, options.min_repeat_ms / 1e3)
        except Exception as error:  # noqa: BLE001 - TVM and PyTorch raise what they like
            del runs[who]
            lines = str(error).strip().splitlines() or [""]
            notes.append(f"left out: {who}: {type(error).__name__}: {lines[-1][:300]}")
    if not runs:
        raise CostError("no contestant can be run; see the notes: " + "; ".join(notes))
    rounds = max(LEAST_ROUNDS, min(options.rounds, int(_ROUNDS_SHARE * left_s / round_s)))
    if rounds < options.rounds:
        notes.append(f"{rounds} rounds in place of {options.rounds}: one takes {round_s:.1f} s")
    return compare(runs, options=replace(options, rounds=rounds))


def _prepare_limit_s(place: Workplace, mode: str) -> float:
    longest_s = place.settings.compile_s if mode == AUTOTUNED else _LONGEST_PREPARE_S
    return min(longest_s, _COMPILE_SHARE * place.left_s)


def _torch(place: Workplace, case: Case) -> TorchProcess:
    python = place.settings.torch_python or sys.executable
    return TorchProcess(python, place.case_folder(case), place.folder / "torch")


@contextmanager
def _torch_runs(place: Workplace, case: Case, notes: list[str]) -> Iterator[dict[str, TimedRuns]]:
    """PyTorch's modes that its step could prepare and that compute the right thing."""
    known = place.ledger.data(f"{case.name}.torch")
    notes += [f"left out: {mode}: {why}" for mode, why in known.get("left_out", {}).items()]
    modes = {}
    for mode, prepared in known.get("modes", {}).items():
        if prepared["error"] <= TOLERANCE:
            modes[mode] = prepared
        else:
            notes.append(f"left out, since its output is wrong by {prepared['error']:.2g}: {mode}")
    with ExitStack() as stack:
        runs: dict[str, TimedRuns] = {}
        for mode in modes:
            process = stack.enter_context(_torch(place, case))
            try:
                process.prepare(mode, _prepare_limit_s(place, mode))
                runs[mode] = process.timed(mode)
            except PeerError as error:
                notes.append(f"left out: {error}")
        yield runs


def _clocks() -> str:
    with CudaDevice() as gpu:
        clocks = read_clocks(gpu.bus_id)
    if clocks is None:
        return "the GPU's clocks are not known: nvidia-smi does not tell"
    return f"after the last round: {clocks.as_text()}"


def _trace(place: Workplace, step: Step, entry: Entry, module: CudaGraphModule) -> None:
    """Write one traced run, for Perfetto."""
    path = place.folder / "traces" / f"{step.case.name}.{entry.kernels.value}.json"
    path.parent.mkdir(exist_ok=True)
    write_chrome_trace(module.trace(), path, name=f"{step.case.name}, {entry.name(STREAMS)}")


def _record(
    place: Workplace, step: Step, comparison: Comparison, notes: Sequence[str]
) -> BenchmarkRecord:
    machine = place.machine
    torch_versions = place.ledger.data(f"{step.case.name}.torch").get("versions", {})
    return BenchmarkRecord.here(
        f"python lab/gpu.py --output {place.folder.name}",
        network=step.case.network,
        batch_size=step.case.batch_size,
        target=machine.target,
        lanes=place.settings.streams,
        machine=machine.facts,
        versions={**machine.versions, **torch_versions},
        comparison=comparison,
        facts=dict(_facts(place, step)),
        notes=(*notes, *comparison.notes),
    )


def _facts(place: Workplace, step: Step) -> Iterator[tuple[str, str]]:
    yield "kernels", "+".join(step.kernels)
    if place.settings.quick:
        yield "quick", "smallest networks, shortest measurements"
    for kernels in step.kernels:
        search = place.ledger.data(f"{step.case.name}.search.{kernels.value}")
        if not search:
            continue
        stages, about = search["stages"], kernels.value
        for who, counts in stages.items():
            name = f"stages of {who}".replace(" ", "_")
            yield f"{about} {name}", str(counts["stages"])
        for what in ("merged", "widest"):
            word = "in" if what == "merged" else "of"
            yield f"{about} {what}_{word}_{IOS}", str(stages[IOS][what])
        for what in ("pricing_s", "device_s", "stages_measured", "stages_known"):
            yield f"{about} {what}", f"{search[what]:.6g}"
