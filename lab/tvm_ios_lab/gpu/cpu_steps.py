"""Steps that need no GPU: the reference, the kernels, the exported schedules."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios_lab.bench.evaluation import SEQUENTIAL
from tvm_ios_lab.gpu.agenda import Kernels, Step
from tvm_ios_lab.gpu.device_code import kept_device_code
from tvm_ios_lab.gpu.reference import compute, outweighing_images, repeated
from tvm_ios_lab.gpu.workplace import Workplace
from tvm_ios_lab.peers.describe import describe
from tvm_ios_lab.peers.network import Case as PeerCase
from tvm_ios_lab.peers.network import write_case

__all__ = ["build", "lower", "reference"]


def reference(place: Workplace, step: Step) -> dict[str, Any]:
    """Write the network, an input and what it computes in float64, where PyTorch reads it too."""
    module, params = place.network(step.case)
    network = describe(module, name=step.case.name, batch_size=step.case.batch_size)
    weights = {name: value.numpy() for name, value in params.items()}
    images = outweighing_images(lambda image: compute(network, weights, image), network)
    output = compute(network, weights, images)
    case = PeerCase(
        network=network,
        weights=weights,
        input=repeated(images, step.case.batch_size).astype(np.float32),
        reference=repeated(output, step.case.batch_size),
    )
    write_case(case, place.case_folder(step.case))
    return {"images": len(images), "largest_input": float(np.max(np.abs(images)))}


def build(place: Workplace, step: Step) -> dict[str, Any]:
    """Compile what the search starts from, and once what TVM makes of the network by itself."""
    (kernels,) = step.kernels
    with kept_device_code(place.device_code), place.built(step.case, kernels) as built:
        if kernels is Kernels.UNTUNED:
            _build_stock(place, step)
        built.kernels.path  # noqa: B018 - compiles the host's code as well
        return {
            "operators": len(built.graph),
            "coverage": built.extraction.coverage.as_text(),
            "notes": list(built.prepared.notes),
        }


def _build_stock(place: Workplace, step: Step) -> None:
    module, params = place.network(step.case)
    plain = build_model(module, params, place.machine.target, name=step.case.name, sink=False)
    path = place.stock(step.case)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain.kernels.staged.factory.export_library(str(path))


def lower(place: Workplace, step: Step) -> dict[str, Any]:
    """Export every schedule as a file of its own; those that merge are compiled first."""
    (kernels,) = step.kernels
    schedules = place.schedules(step.case, kernels)
    arena_bytes, streams, launches = {}, {}, {}
    with kept_device_code(place.device_code), place.built(step.case, kernels) as built:
        for who, schedule in schedules.items():
            lanes = 1 if who == SEQUENTIAL else place.settings.streams
            model = lower_schedule(built, schedule, lanes=lanes)
            path = place.exported(step.case, kernels, who)
            path.parent.mkdir(parents=True, exist_ok=True)
            model.export_library(path)
            arena_bytes[who] = model.plan.arena_bytes
            streams[who] = len({group.lane for group in model.plan.groups})
            launches[who] = len(model.plan.launches)
    return {"arena_bytes": arena_bytes, "streams": streams, "launches": launches}
