"""What a measurement of the peers stores: a benchmark record as ours, its facts those of peers."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata

from benchmarks.peers.network import TOLERANCE, Case
from benchmarks.peers.peak import Peak, floor_ns
from benchmarks.peers.worker import Prepared
from tvm_ios.host import default_lanes, processor_name
from tvm_ios.measure.comparison import Comparison
from tvm_ios.report.records import BenchmarkRecord, NamedValue

__all__ = ["FLOOR_MS", "peer_record"]

FLOOR_MS = "floor ms"
"""Name of the fact: the arithmetic floor."""
_PACKAGES = ("onnxruntime", "openvino", "torch", "onnx", "numpy")


def peer_record(
    case: Case,
    comparison: Comparison,
    prepared: Mapping[str, Prepared],
    peak: Peak,
    notes: Sequence[str],
) -> BenchmarkRecord:
    """Everything a number in a document has to name.

    Parameters
    ----------
    case
        What ran.
    comparison
        The raw rounds.
    prepared
        Errors and load times by contestant.
    peak
        Of this machine, taken beside the rounds.
    notes
        What a reader has to know.
    """
    macs = case.network.macs
    facts = {
        "macs": str(macs),
        "peak GFLOPS, all cores": f"{peak.of_all_cores:.1f}",
        "peak GFLOPS, each core alone": " ".join(f"{core:.1f}" for core in peak.of_each_core),
        "vector bits": str(peak.vector_bits),
        FLOOR_MS: f"{floor_ns(macs, peak.of_all_cores) / 1e6:.4f}",
        "error allowed": f"{TOLERANCE:g}",
        **{f"error of {who}": f"{found.relative_error:.2e}" for who, found in prepared.items()},
        **{f"load s of {who}": f"{found.seconds:.1f}" for who, found in prepared.items()},
    }
    return BenchmarkRecord(
        network=case.network.name,
        batch_size=case.network.batch_size,
        target="none: every peer has kernels of its own",
        lanes=default_lanes(),
        command=shlex.join(["python", "-m", "benchmarks.peers.measure", *sys.argv[1:]]),
        machine=_machine(),
        versions=(
            *(NamedValue(package, metadata.version(package)) for package in _PACKAGES),
            NamedValue("python", platform.python_version()),
        ),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        comparison=comparison,
        facts=tuple(NamedValue(key, value) for key, value in facts.items()),
        notes=(*notes, *comparison.notes),
    )


def _machine() -> tuple[NamedValue, ...]:
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        NamedValue("processor", processor_name()),
        NamedValue("cores", str(default_lanes())),
        NamedValue("memory GiB", f"{pages / 2**30:.0f}"),
        NamedValue("kernel", platform.release()),
    )
