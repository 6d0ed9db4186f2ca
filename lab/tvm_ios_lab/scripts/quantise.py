"""Quantise networks in the forms that people have, each into a folder of its own.

It runs in the environment of the peers, with onnxruntime and sympy. The reference stays the output
of the network in float32, so the error of each contestant is told against that.

::

    FOLDER/bin/python -m tvm_ios_lab.scripts.quantise --networks NAME ... [--to FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onnxruntime.quantization.shape_inference import quant_pre_process

from tvm_ios_lab.peers.network import read_case, write_case
from tvm_ios_lab.peers.subject import EXPORTED, Subject
from tvm_ios_lab.scripts.onnx_quantise import FORMS, WITHOUT_SAMPLES, Samples

__all__ = ["main", "quantise"]

_FILE = "network.onnx"


def quantise(name: str, folder: Path, target: Path, form: str) -> Path:
    """Folder of a network of ``folder`` in one of :data:`FORMS`, such as ``resnet_50_dynamic``."""
    source = folder / Subject(name).stem
    case = read_case(source)
    network = replace(case.network, name=f"{name}_{form}", nodes=(), quantised=True)
    made = target / Subject(network.name).stem
    write_case(replace(case, network=network, weights={}), made)
    cleaned = made / "cleaned.onnx"
    quant_pre_process(str(source / _FILE), str(cleaned), skip_symbolic_shape=True)
    samples = {} if form in WITHOUT_SAMPLES else {"calibration_data_reader": Samples(cleaned)}
    FORMS[form](str(cleaned), str(made / _FILE), **samples)
    cleaned.unlink()
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Program that quantises networks; 0 when all are done."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.scripts.quantise",
        description="Quantise networks, for ours and measure.",
    )
    parser.add_argument("--folder", type=Path, default=EXPORTED, help="networks in float32")
    parser.add_argument("--to", type=Path, default=Path("out/quantised"), help="quantised ones")
    parser.add_argument("--networks", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    options = parser.parse_args(arguments)
    for name in options.networks:
        for form in options.forms:
            print(quantise(name, options.folder, options.to, form), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
