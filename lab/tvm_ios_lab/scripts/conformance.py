"""onnx's own tests of operators, each through ``tvm_ios.from_onnx``, compiled and run.

``python -m tvm_ios_lab.scripts.conformance`` takes all node tests of onnx's backend test suite:
models with inputs and expected outputs. Each is *right*, *right with constants*, *refused* with a
reason, or *wrong*; the exit status is 1 if one is wrong. The tests hand in as inputs what models
have as constants: axes, shapes, counts. A test that is refused is tried again with such inputs
bound, those that the refusal names first, and counted apart; one input stays one. Results go to
``lab/results/onnx_conformance.json`` and a summary to standard output. Interrupted, the same
command goes on; ``--anew`` begins again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from tvm_ios.errors import TvmIosError
from tvm_ios_lab.places import RESULTS

VERDICTS = RESULTS / "onnx_conformance.json"
TARGET = "llvm -opt-level=0"
"""LLVM need not optimise what runs once."""
RIGHT, CONSTANTS, REFUSED, WRONG = "right", "right with constants", "refused", "wrong"
MOST_BOUND = 64
"""Numbers of an input that may be bound as a constant."""
ATOL = 1e-6
"""Least tolerance, as a part of the largest value: onnx's own is for results of NumPy."""
HALF_ATOL = {"float16": 2**-9, "bfloat16": 2**-6}
"""Least tolerances for numbers of 11 and of 8 bits: onnx rounds to these behind each operator."""


def node_tests() -> dict[str, Any]:
    """Tests of onnx by name, without those of training."""
    from onnx.backend.test import loader  # noqa: PLC0415 - takes seconds, and warns

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in loader.load_model_tests(kind="node")}


def verdict(case: Any) -> tuple[str, str]:
    """Whether one test is right, refused or wrong, and why; or which constants made it right."""
    import onnx  # noqa: PLC0415

    taken = case.model
    for inputs, expected in case.data_sets:
        values = {
            value.name: _array(each)
            for value, each in zip(case.model.graph.input, inputs, strict=False)
            if value.type.HasField("tensor_type")
        }
        while True:
            found, reason = _verdict(taken, values, expected, case)
            if found != REFUSED:
                break
            names = _to_bind(taken, values, reason)
            if not names:
                return REFUSED, reason
            bound = onnx.ModelProto()
            bound.CopyFrom(taken)
            _bind(bound, {name: values[name] for name in names})
            taken = bound
        if found == WRONG:
            return found, reason
    left = {value.name for value in taken.graph.input}
    bound_names = [value.name for value in case.model.graph.input if value.name not in left]
    return (CONSTANTS, ", ".join(bound_names)) if bound_names else (RIGHT, "")


def _verdict(
    proto: Any, values: Mapping[str, np.ndarray], expected: Any, case: Any
) -> tuple[str, str]:
    import tvm_ios  # noqa: PLC0415 - the workers load TVM

    try:
        inputs = [value.name for value in proto.graph.input]
        shapes = {name: values[name].shape for name in inputs if name in values}
        mod, params = tvm_ios.from_onnx(proto, shapes)
        model = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    except TvmIosError as error:
        return REFUSED, str(error)
    with model.executor() as executor:
        taken = {entry.name for entry in executor.plan.inputs}
        executor.run(**{name: _wide(value) for name, value in values.items() if name in taken})
        for index, wanted in enumerate(expected):
            found = executor.get_output(index).numpy()
            reason = _difference(found, _array(wanted), case)
            if reason:
                return WRONG, f"output {index}: {reason}"
    return RIGHT, ""


def _to_bind(proto: Any, values: Mapping[str, np.ndarray], reason: str) -> list[str]:
    """Inputs that a refusal names; where it names none, all small ones that are no real numbers.

    None where no other input would be left: what onnx itself folds is no test.
    """
    inputs = [value.name for value in proto.graph.input]
    small = [name for name in inputs if name in values and values[name].size <= MOST_BOUND]
    named = [name for name in small if repr(name) in reason]
    found = named or [name for name in small if values[name].dtype.kind not in "fcV"]
    return found if len(found) < len(inputs) else []


def _bind(proto: Any, values: Mapping[str, np.ndarray]) -> None:
    """Make inputs of a model into constants."""
    from onnx import numpy_helper  # noqa: PLC0415

    kept = [value for value in proto.graph.input if value.name not in values]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    proto.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in values.items()
    )


def _array(value: Any) -> np.ndarray:
    """The array of a value, some of which are messages."""
    from onnx import TensorProto, numpy_helper  # noqa: PLC0415

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _wide(array: np.ndarray) -> np.ndarray:
    """Values of an array, those of bfloat16 in float32, in which such models are computed."""
    return array.astype("float32") if array.dtype.name == "bfloat16" else array


def _difference(found: np.ndarray, wanted: np.ndarray, case: Any) -> str:
    least, wanted = HALF_ATOL.get(wanted.dtype.name, ATOL), _wide(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
    if not found.size:
        return ""
    finite = np.abs(wanted[np.isfinite(wanted)].astype("float64"))
    largest = float(np.max(finite, initial=1.0))
    atol = max(case.atol, least * largest)
    close = np.isclose(found, wanted, rtol=case.rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    return f"{np.count_nonzero(~close)} of {close.size} values differ"


def _worker(names: list[str], results: Connection) -> None:
    cases = node_tests()
    for name in names:
        try:
            found = verdict(cases[name])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal of ours
            found = WRONG, f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        results.send(found)


def run_all(names: list[str], known: dict[str, list[str]], keep: Path, workers: int) -> None:
    """Run tests in processes of their own, into ``known``; a next process where one dies."""
    left = [name for name in names if name not in known]
    shares = [left[first::workers] for first in range(workers)]
    lock = Lock()

    def found(name: str, verdict: tuple[str, str]) -> None:
        with lock:
            known[name] = list(verdict)
            _write(keep, known)

    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(_run_share, share, found) for share in shares]:
            done.result()


def _run_share(left: list[str], found: Callable[[str, tuple[str, str]], None]) -> None:
    context = multiprocessing.get_context("spawn")
    while left:
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_worker, args=(left, theirs))
        worker.start()
        theirs.close()
        try:
            while left:
                found(left[0], ours.recv())
                left = left[1:]
        except EOFError:
            worker.join()
            found(left[0], (WRONG, f"the process ended with {worker.exitcode}"))
            left = left[1:]
        worker.join()


def _in_turn(cases: Mapping[str, Any]) -> list[str]:
    """A test of each operator, then the next of each, so that a part of them is a spread."""
    seen: Counter[str] = Counter()
    turns = {}
    for name, case in cases.items():
        # Those that are expanded test the operators of a function's body once more.
        kind = "expanded" if "_expanded" in name else case.model.graph.node[0].op_type
        seen[kind] += 1
        turns[name] = seen[kind]
    return sorted(cases, key=lambda name: turns[name])


def _write(path: Path, known: Mapping[str, list[str]]) -> None:
    import onnx  # noqa: PLC0415

    record = {"onnx": onnx.__version__, "target": TARGET, "tests": dict(sorted(known.items()))}
    path.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


def main() -> int:
    """Run what is asked for and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tests (default: all)")
    parser.add_argument("--output", type=Path, default=VERDICTS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--anew", action="store_true", help="forget what was found before")
    asked = parser.parse_args()
    known: dict[str, list[str]] = {}
    if asked.output.exists() and not asked.anew:
        known = json.loads(asked.output.read_text(encoding="utf-8"))["tests"]
    for name in asked.names:
        known.pop(name, None)
    names = asked.names or _in_turn(node_tests())
    run_all(names, known, asked.output, asked.workers)
    counts = Counter(found for found, _ in known.values())
    print(", ".join(f"{counts[each]} {each}" for each in (RIGHT, CONSTANTS, REFUSED, WRONG)))
    for name, (found, reason) in known.items():
        if found == WRONG:
            print(f"{name}: {reason}")
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
