"""Records of the peers' measurements: benchmark records as ours, with the facts of peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata

from tvm_ios.measure.comparison import Comparison
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.measurement import program_command, versions_here
from tvm_ios_lab.peers.build import Kernels
from tvm_ios_lab.peers.network import TOLERANCE, Network
from tvm_ios_lab.peers.peak import Peak, floor_ns
from tvm_ios_lab.peers.peer import Contestant, Peer
from tvm_ios_lab.peers.worker import Prepared

__all__ = ["ERROR", "FLOOR_MS", "IN_TURN", "KERNELS", "PRECISION", "SCHEDULE", "peer_record"]

FLOOR_MS = "floor ms"
"""Name of the fact: the arithmetic floor."""
KERNELS, SCHEDULE = "kernels of", "schedule of"
"""Prefixes of a contestant of ours, in names of the facts that say what it runs."""
ERROR, PRECISION = "error of", "precision of"
"""Prefixes of a contestant, in names of the facts that say how far off its output is, and the
lowest precision that it may compute in."""
IN_TURN = "a file each"
"""Kernels of ours where several networks run one after another."""
_PACKAGES = ("onnxruntime", "openvino", "torch", "onnx", "numpy")


def peer_record(
    network: Network,
    comparison: Comparison,
    prepared: Mapping[Contestant, Prepared],
    kernels: Sequence[Kernels],
    peak: Peak,
    notes: Sequence[str],
) -> BenchmarkRecord:
    """Everything a number in a document has to name.

    Parameters
    ----------
    network
        Network that ran; of several, their names and their arithmetic.
    comparison
        The raw rounds.
    prepared
        Errors and load times by contestant.
    kernels
        Sets of our kernels.
    peak
        Peak of this machine, taken beside the rounds.
    notes
        Notes that a reader has to know.
    """
    macs = network.macs
    facts = {
        "macs": str(macs),
        "peak GFLOPS, all cores": f"{peak.of_all_cores:.1f}",
        "peak GFLOPS, each core alone": " ".join(f"{core:.1f}" for core in peak.of_each_core),
        "vector bits": str(peak.vector_bits),
        FLOOR_MS: f"{floor_ns(macs, peak.of_all_cores) / 1e6:.4f}",
        "error allowed": f"{TOLERANCE:g}",
        **{f"{ERROR} {who.name}": f"{found.relative_error:.2e}" for who, found in prepared.items()},
        **{f"{PRECISION} {who.name}": who.precision for who in prepared},
        **{f"load s of {who.name}": f"{found.seconds:.1f}" for who, found in prepared.items()},
        **_our_facts(prepared, kernels),
    }
    return BenchmarkRecord.here(
        program_command("tvm_ios_lab.peers.measure"),
        versions={
            **_package_versions(),
            **versions_here(),
            **{name: version for each in kernels for name, version in each.versions},
        },
        network=network.name,
        batch_size=network.batch_size,
        target=", ".join(dict.fromkeys(each.target for each in kernels)) or "none: peers only",
        lanes=max(who.threads for who in prepared),
        comparison=comparison,
        facts=facts,
        notes=(*notes, *comparison.notes),
    )


def _our_facts(who: Iterable[Contestant], kernels: Sequence[Kernels]) -> dict[str, str]:
    """Facts of what was built for us, and which contestant runs which of it."""
    builds = {build.name: build for each in kernels for build in each.builds}
    ours = {one.name: builds[one.build] for one in who if one.build}
    in_turn = {one.name for one in who if one.peer is Peer.OURS and not one.build}
    made = {
        f"{what} {each.name}": value
        for each in kernels
        for what, value in (
            ("command of kernels", each.command),
            ("options of kernels", each.configuration),
            ("seconds for kernels", f"{each.seconds:.1f}"),
            ("tune's report on kernels", each.report),
        )
    }
    return {
        **{f"{KERNELS} {name}": build.kernels for name, build in ours.items()},
        **{f"{SCHEDULE} {name}": build.schedule for name, build in ours.items()},
        **{f"{KERNELS} {name}": IN_TURN for name in in_turn},
        **{f"{SCHEDULE} {name}": "one after another" for name in in_turn},
        **made,
    }


def _package_versions() -> dict[str, str]:
    """Versions of the peers' packages that are here; where only ours run, none has to be."""
    found = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
