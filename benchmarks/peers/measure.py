"""Measure every peer on networks that ``export`` wrote; runs in the environment of the peers.

All contestants of a network have a process of their own and take turns in interleaved rounds. Their
outputs are compared with TVM's before anything is timed.

::

    FOLDER/bin/python -m benchmarks.peers.measure [--networks NAME ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.peers.errors import PeerError
from benchmarks.peers.network import EXPORTED, NETWORKS, TOLERANCE, Case, read_case
from benchmarks.peers.peak import best_peak, measure_peak
from benchmarks.peers.peer import Contestant, Peer, contestants
from benchmarks.peers.record import peer_record
from benchmarks.peers.worker import Prepared, Worker
from tvm_ios.errors import TvmIosError
from tvm_ios.host import core_to_core_ns, default_lanes
from tvm_ios.measure.compare import CompareOptions, compare
from tvm_ios.report.records import BenchmarkRecord

__all__ = ["Settings", "main", "measure_network", "require_agreement"]

_PAUSE_S = 0.1
"""Between turns, until the threads of the last contestant have stopped spinning."""
_LOAD_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How networks are measured."""

    folder: Path
    """Holds one folder a network."""
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
            self._rest()
        self._last = worker
        return worker.time_ns(number, warm_up=changed)

    def ping_pong_ns(self) -> float:
        """Core-to-core latency, in ns; 0 where there is a single core."""
        self._rest()
        return core_to_core_ns() or 0.0

    def _rest(self) -> None:
        self._last = None
        time.sleep(_PAUSE_S)


def measure_network(name: str, settings: Settings) -> BenchmarkRecord:
    """Measure one network.

    Raises
    ------
    PeerError
        If a peer is missing or fails, or its output is not TVM's.
    """
    folder = settings.folder / name
    case = read_case(folder)
    _write_onnx_file(case, folder)
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
    return peer_record(case, comparison, prepared, best_peak(peak, measure_peak()), notes)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure networks, each into a JSON file of its own; 0 when all is done."""
    options = _parser().parse_args(arguments)
    try:
        settings = Settings(
            folder=options.folder,
            peers=tuple(options.peers),
            options=CompareOptions(
                number=options.number, rounds=options.rounds, min_repeat_ms=options.min_repeat_ms
            ),
        )
        options.output.mkdir(parents=True, exist_ok=True)
        for name in options.networks:
            record = measure_network(name, settings)
            print(f"\n== {name} ==\n{record.comparison.as_text()}", flush=True)
            for note in record.notes[: len(record.notes) - len(record.comparison.notes)]:
                print(f"  note: {note}", flush=True)
            path = options.output / f"{name}_bs{record.batch_size}.json"
            path.write_text(record.to_json() + "\n")
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.measure",
        description="Measure peers against each other: every contestant in one interleaved run, "
        "raw rounds into OUTPUT/NETWORK.json.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", type=Path, default=EXPORTED, help="what export wrote")
    add("--networks", nargs="+", default=list(NETWORKS), metavar="NAME", help="which of them")
    add(
        "--peers",
        nargs="+",
        type=Peer,
        default=list(Peer),
        metavar="PEER",
        help=f"some of: {', '.join(repr(peer.value) for peer in Peer)}",
    )
    add("--output", type=Path, default=Path("benchmarks/results/peers"), help="for the JSON files")
    add("--rounds", type=int, default=12, help="rounds that count")
    add("--number", type=int, default=3, help="least runs of a contestant in a round")
    add("--min-repeat-ms", type=float, default=20.0, help="least length of its sample")
    return parser


def _write_onnx_file(case: Case, folder: Path) -> None:
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


@contextmanager
def _workers(
    who: Sequence[Contestant], folder: Path
) -> Iterator[tuple[dict[Worker, Prepared], list[str]]]:
    """All contestants ready to run, and notes on those that took too long to compile."""
    prepared: dict[Worker, Prepared] = {}
    notes: list[str] = []
    with ExitStack() as stack:
        # A core for each that loads; all at once would need their memory at its peak at once.
        for first in range(0, len(who), default_lanes()):
            started = [Worker(one, folder) for one in who[first : first + default_lanes()]]
            for worker in started:
                stack.callback(worker.close)
            for worker in started:
                try:
                    prepared[worker] = worker.prepared(_LOAD_LIMIT_S)
                except PeerError as error:
                    if worker.contestant.peer is not Peer.TORCH_COMPILE:
                        raise PeerError(f"{folder.name}: {error}") from error
                    notes.append(f"left out: {error}")
        yield prepared, notes


if __name__ == "__main__":
    sys.exit(main())
