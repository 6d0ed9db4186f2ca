"""Decisions of one graph of a network, carried to other graphs of it: where they fit.

``python -m tvm_ios_lab.scripts.carried_decisions [NAMES]`` prepares networks of
``tvm_ios.models`` for AVX-512 and carries their greedy schedule to the graph that comes from an
ONNX file, to the one for AVX2, and to the one with a batch of two. Nothing is compiled or timed but
the search for the operators. The table goes to standard output.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import tvm

import tvm_ios
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.transfer import transferred
from tvm_ios.core.verify import verify_schedule
from tvm_ios.models import MODEL_NAMES, by_name
from tvm_ios.relay.extract import extract
from tvm_ios.relay.prepare import prepare
from tvm_ios.report.table import Table
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios_lab.peers.describe import describe
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.normal_form import normal_form
from tvm_ios_lab.peers.onnx_file import onnx_model

AVX512, AVX2 = "llvm -mcpu=cascadelake", "llvm -mcpu=haswell"
HEADER = ("network", "goes to", "operators", "there", "equal", "fits", "found in, ms")

Model = tuple[tvm.IRModule, Any]


def main() -> None:
    """Print a row for each network and each graph that its decisions go to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODEL_NAMES))
    rows = [row for name in parser.parse_args().names for row in _rows(name)]
    print(Table(header=HEADER, rows=tuple(rows)).as_markdown())


def _rows(name: str) -> Iterator[tuple[str, ...]]:
    model = by_name(name)(batch_size=1)
    here = _graph(model)
    for where, there in _others(name, model):
        begin = time.perf_counter()
        found = transferred(greedy_schedule(here), here, there)
        took_ms = (time.perf_counter() - begin) * 1e3
        if found is not None:
            verify_schedule(found, there)
        equal = here.fingerprint() == there.fingerprint()
        answers = ("yes" if each else "no" for each in (equal, found is not None))
        yield (name, where, str(len(here)), str(len(there)), *answers, f"{took_ms:.1f}")


def _others(name: str, model: Model) -> Iterator[tuple[str, OperatorGraph]]:
    with suppress(PeerError):  # some have an operator that the lab writes to no file
        yield "ONNX", _graph(_through_onnx(name, model))
    yield "AVX2", _graph(model, AVX2)
    yield "batch of 2", _graph(by_name(name)(batch_size=2))


def _graph(model: Model, target: str = AVX512) -> OperatorGraph:
    return extract(prepare(*model, target).module).graph


def _through_onnx(name: str, model: Model) -> Model:
    described, weights = normal_form(*model)
    network = describe(described, name=name, batch_size=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        onnx.save(onnx_model(network, {key: each.numpy() for key, each in weights.items()}), path)
        return tvm_ios.from_onnx(str(path))


if __name__ == "__main__":
    main()
