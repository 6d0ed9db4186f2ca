"""First calls of ``torch.compile`` from empty caches: tvm_ios beside torch's inductor.

``python -m tvm_ios_lab.scripts.torch_first_call`` with an interpreter that has TVM and torch. For
each network the back ends take turns, each call in a process of its own with empty cache folders.
The first call is the seconds from ``torch.compile`` to its first result, imports of the back end
included and those of torch not. The time of a run is taken right after it, beside the process that
looks for the finished model; in the last turn again once the finished model has taken its place.
The table and the times go to ``lab/results/torch_first_call.txt`` and ``.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from tvm_ios.report.table import Table
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS, ROOT, python_path
from tvm_ios_lab.scripts.door_networks import NETWORKS, convolution

OURS, THEIRS = "tvm_ios", "inductor"
RUNS_S = 1.5
"""Seconds of runs that the time of one run is the median of."""
FINISHED = "tvm_ios has the finished model of a part"
HEADER = ("network", "inductor s", "tvm_ios s", "ratio", "inductor ms", "first ms", "finished ms")
HEADER_LATER = "finished after s"


class Basic(nn.Module):  # type: ignore[misc]
    """Block of ResNet-18."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        last = convolution(width, width, 3, bend=nn.Identity)
        self.body = nn.Sequential(convolution(before, width, 3, stride), last)
        fits = before == width and stride == 1
        self.skip = (
            nn.Identity() if fits else convolution(before, width, 1, stride, bend=nn.Identity)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Change an image."""
        return F.relu(self.body(x) + self.skip(x))


def resnet_18() -> nn.Module:
    """ResNet-18 with the layers of torch."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width in (64, 128, 256, 512):
        layers += [Basic(before, width, 1 if width == before else 2), Basic(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def _of_doors(name: str) -> Callable[[], tuple[nn.Module, Tensor]]:
    return lambda: (NETWORKS[name].module(), NETWORKS[name].example())


SUBJECTS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mobilenet_v2": _of_doors("mobilenet_v2"),
    "resnet_18": lambda: (resnet_18().eval(), torch.randn(1, 3, 224, 224)),
    "resnet_50": _of_doors("resnet_50"),
    "transformer": _of_doors("decoder"),
}
"""Functions that make a network and its input, by the name of its row."""


def call(backend: str, name: str, later_s: float) -> dict[str, Any]:
    """Seconds of a first call in this process, milliseconds of runs, and when it was finished."""
    torch.manual_seed(0)
    module, example = SUBJECTS[name]()
    ended: list[float] = []
    logger = logging.getLogger("tvm_ios.pytorch.relay_graph")
    logger.setLevel(logging.INFO)

    def heard(told: logging.LogRecord) -> bool:
        if told.getMessage() == FINISHED:
            ended.append(time.perf_counter())
        return True

    logger.addFilter(heard)
    with torch.inference_mode():
        wanted = module(example)
        began = time.perf_counter()
        fast = torch.compile(module, backend=backend)
        found = fast(example)
        seconds = time.perf_counter() - began
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
        told = {"backend": backend, "seconds": seconds, "first_ms": _run_ms(fast, example)}
        while backend == OURS and not ended and time.perf_counter() - began < seconds + later_s:
            time.sleep(0.5)
            fast(example)
        if ended:
            told |= {"finished_ms": _run_ms(fast, example), "finished_s": ended[0] - began}
    return told


def _run_ms(fast: Callable[[Tensor], Any], example: Tensor) -> float:
    times, end = [], time.perf_counter() + RUNS_S
    while time.perf_counter() < end:
        begin = time.perf_counter()
        fast(example)
        times.append(time.perf_counter() - begin)
    return median(times) * 1e3


def _called(backend: str, name: str, later_s: float) -> dict[str, Any]:
    """Seconds and run times of a first call in a process of its own, with empty caches."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        ours, theirs = Path(cache) / "ours", Path(cache) / "theirs"
        ours.mkdir(mode=0o700)
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "--call", backend, name, str(later_s)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": python_path(), "TVM_IOS_CACHE_DIR": str(ours)}
            | {"TORCHINDUCTOR_CACHE_DIR": str(theirs)},
        )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(name, told, file=sys.stderr, flush=True)
    return told


def row(name: str, calls: list[dict[str, Any]]) -> tuple[str, ...]:
    """Row of the table: medians over the calls of a network."""

    def of(backend: str, key: str) -> float | None:
        found = [each[key] for each in calls if each["backend"] == backend and key in each]
        return median(found) if found else None

    theirs, ours = of(THEIRS, "seconds"), of(OURS, "seconds")
    shown = (
        *((theirs, ".1f"), (ours, ".1f"), (ours and theirs and ours / theirs, ".2f")),
        *((of(THEIRS, "first_ms"), ".2f"), (of(OURS, "first_ms"), ".2f")),
        *((of(OURS, "finished_ms"), ".2f"), (of(OURS, "finished_s"), ".0f")),
    )
    return (name, *("" if value is None else format(value, form) for value, form in shown))


def main() -> None:
    """Time all networks, or those that are named, and keep the table and the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=list(SUBJECTS), choices=list(SUBJECTS))
    parser.add_argument("--calls", type=int, default=2, help="calls of each back end")
    parser.add_argument("--later", type=float, default=60.0, help="seconds to wait for the end")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--call", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.call:
        print(json.dumps(call(asked.call[0], asked.call[1], float(asked.call[2]))))
        return
    calls: dict[str, list[dict[str, Any]]] = {}
    for name in asked.networks:
        calls[name] = [
            _called(backend, name, asked.later if turn == asked.calls - 1 else 0.0)
            for turn in range(asked.calls)
            for backend in (THEIRS, OURS)
        ]
    rows = tuple(row(name, calls[name]) for name in asked.networks)
    text = Table(header=(*HEADER, HEADER_LATER), rows=rows).as_markdown()
    print(text)
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.torch_first_call")).origin()
    (asked.out / "torch_first_call.txt").write_text(text + "\n")
    record = json.dumps(origin | {"calls": calls}, indent=1)
    (asked.out / "torch_first_call.json").write_text(record + "\n")


if __name__ == "__main__":
    main()
