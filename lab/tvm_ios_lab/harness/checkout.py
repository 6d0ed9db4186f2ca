"""Stored data of a checkout that experiments read: recorded problems and results of benchmarks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.errors import ArtifactError
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.places import ROOT
from tvm_ios_lab.problems.problem import RecordedPart, RecordedProblem, parse_problem

__all__ = [
    "PAPER_NETWORKS",
    "StoredRaceCell",
    "distinct_parts",
    "recorded_problem",
    "sample_part",
    "stored_digest",
    "stored_record",
    "stored_text",
]

PAPER_NETWORKS = {
    "Inception V3": "tests/golden/inception_v3_bs1.json",
    "RandWire": "tests/golden/randwire_bs1.json",
    "NasNet-A": "lab/problems/nasnet_large_bs1.json",
    "SqueezeNet": "tests/golden/squeezenet_bs1.json",
}
"""The networks of the paper, and the problem that was recorded of each with its own operators."""


def stored_text(path: str) -> str:
    """The text of a file of the checkout that this package lies in."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"cannot read {path} in {ROOT}: {error}; experiments of the paper need a checkout of "
            "tvm-ios; install its lab from one with pip install -e ./lab"
        ) from error


def stored_digest(path: str) -> str:
    """Eight digits that change with a file of the checkout; none where it cannot be read."""
    try:
        return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:8]
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRaceCell:
    """A cell of an experiment that reads the stored race of a network."""

    network: str
    race: str
    """Digest of the file that the race is stored in: another race is another cell."""

    @classmethod
    def of(cls, network: str, path: str) -> Self:
        """The cell of the race that is stored now."""
        return cls(network=network, race=stored_digest(path))


def stored_record(path: str, *, command: str) -> BenchmarkRecord:
    """A record of a benchmark in the checkout.

    Parameters
    ----------
    command
        Command that measures it, for messages.
    """
    try:
        return BenchmarkRecord.from_json(stored_text(path))
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}; measure it with {command}") from error


@cache
def recorded_problem(network: str) -> RecordedProblem:
    """The recorded problem of a network of :data:`PAPER_NETWORKS`."""
    return parse_problem(stored_text(PAPER_NETWORKS[network]))


def distinct_parts(network: str) -> dict[str, tuple[RecordedPart, int]]:
    """Parts of a network that differ, by fingerprint, and how often each is there."""
    found: dict[str, tuple[RecordedPart, int]] = {}
    for part in recorded_problem(network).parts:
        key = part.graph.fingerprint()
        first, count = found.get(key, (part, 0))
        found[key] = (first, count + 1)
    return found


def sample_part() -> RecordedPart:
    """The sample network of the published README, as its code would record it.

    Four convolutions of 3x3 on 15x15 and their joint; the last convolution reads the first one.
    """
    channels, pixels = (375, 750, 375, 750), 15 * 15
    inputs, window = (375, 375, 375, 375), 3 * 3

    def convolution(index: int) -> dict[str, object]:
        return {
            "in_key": [[["x" if index < 3 else "conv1", 0, 375]]],
            "in_shape": [inputs[index], 15, 15],
            "out": channels[index],
            "kernel": [3, 3],
            "stride": [1, 1],
            "pad": [1, 1],
            "groups": 1,
            "act": "relu",
        }

    outputs = [count * pixels for count in channels]
    joined = sum(outputs[1:])
    part = {
        "n": 5,
        "succ": [[3], [4], [4], [4], []],
        "prims": [
            *([[n * (k * window + 1), n, 1]] for n, k in zip(outputs, inputs, strict=True)),
            [[joined, joined, 1]],
        ],
        "conv": [*map(convolution, range(4)), None],
    }
    cost = {"PEAK": 1, "SAT": 1, "LAUNCH": 0, "HOST": 0, "BARRIER": 0}
    (recorded,) = parse_problem(
        json.dumps({"model": "sample", "cost": cost, "parts": [part]})
    ).parts
    names = ("conv1", "conv2", "conv3", "conv4", "concat")
    graph = OperatorGraph(
        "sample",
        tuple(
            replace(operator, name=name, kind="conv2d" if name != "concat" else name)
            for operator, name in zip(recorded.graph.operators, names, strict=True)
        ),
    )
    return replace(recorded, graph=graph)
