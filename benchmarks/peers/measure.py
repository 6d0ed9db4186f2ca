"""Measure every peer on networks that ``export`` wrote; runs in the environment of the peers.

All contestants of a network have a process of their own and take turns in interleaved rounds. Their
outputs are compared with TVM's before anything is timed.

    FOLDER/bin/python -m benchmarks.peers.measure --folder EXPORTED [--networks NAME ...]
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path

from benchmarks.peers.errors import PeerError
from benchmarks.peers.network import Case, read_case
from benchmarks.peers.peak import Peak, floor_ns, measure_peak
from benchmarks.peers.peer import Contestant, Peer, contestants
from benchmarks.peers.worker import Prepared, Worker
from tvm_ios.cost.compare import CompareOptions, Comparison, compare
from tvm_ios.errors import TvmIosError
from tvm_ios.host import core_to_core_ns, default_lanes, processor_name
from tvm_ios.report.records import BenchmarkRecord, NamedValue

__all__ = ["TOLERANCE", "Settings", "main", "measure_network", "require_agreement"]

TOLERANCE = 1e-3
"""Largest error of an output that still counts as the same network (see ``relative_error``)."""
NETWORKS = (
    "randwire_small",
    "nasnet_small",
    "nasnet_small_c44",
    "squeezenet",
    "inception_v3",
    "randwire",
    "nasnet_large",
)
PACKAGES = ("onnxruntime", "openvino", "torch", "onnx", "numpy")
PAUSE_S = 0.1
"""Between turns, until the threads of the last contestant have stopped spinning."""
COMPILE_LIMIT_S = 120.0
LOAD_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How networks are measured."""

    folder: Path
    """Holds one folder a network."""
    output: Path
    """Where the JSON files go."""
    peers: tuple[Peer, ...]
    options: CompareOptions


class Turns:
    """Gives the machine to one contestant at a time."""

    def __init__(self) -> None:
        self._last: Worker | None = None

    def time_ns(self, worker: Worker, number: int) -> int:
        """Nanoseconds of back-to-back runs, after a pause if another one had the machine."""
        changed = worker is not self._last
        if changed:
            self.rest()
        self._last = worker
        return worker.time_ns(number, warm_up=changed)

    def ping_pong_ns(self) -> float:
        """Core-to-core latency, in ns; 0 where there is a single core."""
        self.rest()
        return core_to_core_ns() or 0.0

    def rest(self) -> None:
        """Wait for idle cores."""
        self._last = None
        time.sleep(PAUSE_S)


def measure_network(name: str, settings: Settings) -> BenchmarkRecord:
    """Measure one network.

    Raises
    ------
    PeerError
        If a peer is missing or fails, or its output is not TVM's.
    """
    folder = settings.folder / name
    case = read_case(folder)
    write_onnx_file(case, folder)
    turns = Turns()
    peak = measure_peak()
    with _workers(contestants(settings.peers, default_lanes()), folder) as (workers, notes):
        prepared = {worker.contestant.name: found for worker, found in workers.items()}
        require_agreement(name, {who: found.relative_error for who, found in prepared.items()})
        comparison = compare(
            {worker.contestant.name: partial(turns.time_ns, worker) for worker in workers},
            options=settings.options,
            ping_pong_ns=turns.ping_pong_ns,
        )
    return _record(case, comparison, prepared, peak, notes)


def require_agreement(network: str, errors: Mapping[str, float]) -> None:
    """Refuse outputs that differ from TVM's.

    Parameters
    ----------
    network
        What ran.
    errors
        By contestant: the largest difference of its output, relative to the largest value.

    Raises
    ------
    PeerError
        Naming the network and every contestant that is off.
    """
    wrong = [f"{who} by {error:.2g}" for who, error in errors.items() if not error <= TOLERANCE]
    if wrong:
        raise PeerError(
            f"{network}: outputs differ from TVM's, relative to its largest value: "
            f"{', '.join(wrong)}; allowed is {TOLERANCE:g}; compare the peer's operators with "
            "network.py, or export the network again"
        )


def write_onnx_file(case: Case, folder: Path) -> None:
    """Write what onnxruntime and OpenVINO read, unless it lies there.

    Raises
    ------
    PeerError
        If onnx is not installed.
    """
    try:
        from benchmarks.peers.onnx_file import write_onnx  # noqa: PLC0415 - names what is missing
    except ModuleNotFoundError as error:
        raise PeerError(
            f"the module {error.name} is not installed; run `benchmarks/peers/setup.sh FOLDER` "
            "and use FOLDER/bin/python"
        ) from error
    path = folder / "network.onnx"
    if not path.exists() or path.stat().st_mtime < (folder / "network.json").stat().st_mtime:
        write_onnx(case, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure networks, each into a JSON file of its own; 0 when all is done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.measure", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="what export wrote")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), metavar="NAME")
    parser.add_argument(
        "--peers",
        nargs="+",
        type=Peer,
        default=list(Peer),
        metavar="PEER",
        help=f"of: {', '.join(repr(peer.value) for peer in Peer)} (default: all)",
    )
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/peers"))
    parser.add_argument("--rounds", type=int, default=12, help="default: %(default)s")
    parser.add_argument(
        "--number", type=int, default=3, help="least runs in a round (default: %(default)s)"
    )
    parser.add_argument(
        "--min-repeat-ms", type=float, default=20.0, help="least length of a sample"
    )
    options = parser.parse_args(arguments)
    try:
        settings = Settings(
            folder=options.folder,
            output=options.output,
            peers=tuple(options.peers),
            options=CompareOptions(
                warmup=1,
                number=options.number,
                rounds=options.rounds,
                min_repeat_ms=options.min_repeat_ms,
            ),
        )
        settings.output.mkdir(parents=True, exist_ok=True)
        for name in options.networks:
            record = measure_network(name, settings)
            print(f"\n== {name} ==\n{record.comparison.as_text()}", flush=True)
            path = settings.output / f"{name}_bs{record.batch_size}.json"
            path.write_text(record.to_json() + "\n")
    except TvmIosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _workers(
    who: Sequence[Contestant], folder: Path
) -> Iterator[tuple[dict[Worker, Prepared], list[str]]]:
    """All contestants ready to run, and notes on those that took too long to compile."""
    prepared: dict[Worker, Prepared] = {}
    notes: list[str] = []
    try:
        for contestant in who:
            worker = Worker(contestant, folder)
            compiles = contestant.peer is Peer.TORCH_COMPILE
            try:
                prepared[worker] = worker.prepared(COMPILE_LIMIT_S if compiles else LOAD_LIMIT_S)
            except PeerError as error:
                worker.close()
                if not compiles:
                    raise PeerError(f"{folder.name}: {error}") from error
                notes.append(f"left out: {error}")
        yield prepared, notes
    finally:
        for worker in prepared:
            worker.close()


def _record(
    case: Case,
    comparison: Comparison,
    prepared: Mapping[str, Prepared],
    peak: Peak,
    notes: Sequence[str],
) -> BenchmarkRecord:
    network = case.network
    macs = network.macs(case.weights)
    facts = {
        "macs": str(macs),
        "peak GFLOPS, all cores": f"{peak.of_all_cores:.1f}",
        "peak GFLOPS, each core alone": " ".join(f"{core:.1f}" for core in peak.of_each_core),
        "vector bits": str(peak.vector_bits),
        "floor ms": f"{floor_ns(macs, peak.of_all_cores) / 1e6:.4f}",
        "error allowed": f"{TOLERANCE:g}",
        **{f"error of {who}": f"{found.relative_error:.2e}" for who, found in prepared.items()},
        **{f"load s of {who}": f"{found.seconds:.1f}" for who, found in prepared.items()},
    }
    return BenchmarkRecord(
        network=network.name,
        batch_size=network.batch_size,
        target="none: every peer has kernels of its own",
        lanes=default_lanes(),
        command=shlex.join(["python", "-m", "benchmarks.peers.measure", *sys.argv[1:]]),
        machine=(
            NamedValue("processor", processor_name()),
            NamedValue("cores", str(default_lanes())),
            NamedValue("memory GiB", f"{_memory_bytes() / 2**30:.0f}"),
            NamedValue("kernel", platform.release()),
        ),
        versions=(
            *(NamedValue(package, metadata.version(package)) for package in PACKAGES),
            NamedValue("python", platform.python_version()),
        ),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        comparison=comparison,
        facts=tuple(NamedValue(key, value) for key, value in facts.items()),
        notes=(*notes, *comparison.notes),
    )


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


if __name__ == "__main__":
    sys.exit(main())
