"""Stored data of a checkout that experiments read: recorded problems and results of benchmarks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tvm_ios.cost.problem import RecordedPart, RecordedProblem, parse_problem
from tvm_ios.errors import ArtifactError

__all__ = ["PAPER_NETWORKS", "distinct_parts", "recorded_problem", "stored_text"]

ROOT = Path(__file__).resolve().parents[3]
PAPER_NETWORKS = {
    "Inception V3": "tests/golden/inception_v3_bs1.json",
    "RandWire": "tests/golden/randwire_bs1.json",
    "NasNet-A": "benchmarks/problems/nasnet_large_bs1.json",
    "SqueezeNet": "tests/golden/squeezenet_bs1.json",
}
"""The networks of the paper, and the problem that was recorded of each with its own operators."""


def stored_text(path: str) -> str:
    """The text of a file of the checkout that this package lies in.

    Raises
    ------
    ArtifactError
        If it is not there.
    """
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"cannot read {path} in {ROOT}: {error}; experiments of the paper need a checkout of "
            "tvm-ios, so install it from one with pip install -e"
        ) from error


@cache
def recorded_problem(network: str) -> RecordedProblem:
    """The recorded problem of a network of :data:`PAPER_NETWORKS`.

    Raises
    ------
    ArtifactError
        If its file is not there.
    """
    return parse_problem(stored_text(PAPER_NETWORKS[network]))


def distinct_parts(network: str) -> dict[str, tuple[RecordedPart, int]]:
    """Parts of a network that differ, by fingerprint, and how often each is there."""
    found: dict[str, tuple[RecordedPart, int]] = {}
    for part in recorded_problem(network).parts:
        key = part.graph.fingerprint()
        first, count = found.get(key, (part, 0))
        found[key] = (first, count + 1)
    return found
