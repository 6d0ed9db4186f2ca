"""Measure us and every peer on networks that ``export`` and ``ours`` wrote, in one run.

It runs in the environment of the peers and starts our builds in the project's. All contestants of a
network have a process of their own and take turns in interleaved rounds. Their outputs are compared
with TVM's before anything is timed: in float32 they have to agree, in bfloat16 their error is told.

::

    FOLDER/bin/python -m tvm_ios_lab.peers.measure [--networks NAME[:BATCH] ...]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.errors import TvmIosError
from tvm_ios.host import core_to_core_ns, default_lanes
from tvm_ios.measure.compare import CompareOptions, compare
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.peers.build import builds_of, kernels_of
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import TOLERANCE, Case, read_case
from tvm_ios_lab.peers.peak import best_peak, measure_peak
from tvm_ios_lab.peers.peer import Contestant, Peer, contestants, need_onnx_file
from tvm_ios_lab.peers.record import peer_record
from tvm_ios_lab.peers.subject import Subject, add_subject_options, member_folders
from tvm_ios_lab.peers.worker import Prepared, Worker

__all__ = ["Settings", "main", "measure_network", "require_agreement"]

_PAUSE_S = 0.1
"""Seconds between turns, until the threads of the last contestant have stopped spinning."""
_NEEDS_NO_WARM_UP_NS = 1e9
"""A run this long, which has run before, brings back what others evicted in its first per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a measurement."""

    folder: Path
    """Holds one folder a network."""
    peers: tuple[Peer, ...]
    options: CompareOptions
    our_python: str
    """The interpreter that has TVM."""
    load_limit_s: float
    """Seconds in which a contestant has to be ready."""
    lanes: int
    """Threads of peers; our builds have those that they were made for."""
    one_thread: bool = True
    """Whether peers run on one thread, too."""


class Turns:
    """Gives the machine to one contestant at a time."""

    def __init__(self) -> None:
        self._last: Worker | None = None
        self._long: set[Worker] = set()

    def time_ns(self, worker: Worker, number: int) -> int:
        """Nanoseconds of back-to-back runs, after a pause if another one had the machine."""
        changed = worker is not self._last
        if changed:
            self._rest()
        self._last = worker
        elapsed_ns = worker.time_ns(number, warm_up=changed and worker not in self._long)
        if elapsed_ns >= number * _NEEDS_NO_WARM_UP_NS:
            self._long.add(worker)
        return elapsed_ns

    def ping_pong_ns(self) -> float:
        """Core-to-core latency, in ns; 0 where there is a single core."""
        self._rest()
        return core_to_core_ns() or 0.0

    def _rest(self) -> None:
        self._last = None
        time.sleep(_PAUSE_S)


def measure_network(subject: Subject, settings: Settings) -> BenchmarkRecord:
    """Measure one network, or several that run together."""
    folder = settings.folder / subject.stem
    folders = member_folders(folder)
    cases = [read_case(member) for member in folders]
    networks = [case.network for case in cases]
    several = len(cases) > 1
    builds = (
        builds_of(folder) if (Peer.OURS_JOINT if several else Peer.OURS) in settings.peers else ()
    )
    who = contestants(
        settings.peers,
        settings.lanes,
        builds=builds,
        several=several,
        images=not any(network.reads_tokens for network in networks),
        described=not several and networks[0].is_described,
        one_thread=settings.one_thread,
    )
    for case, member in zip(cases, folders, strict=True):
        if case.network.is_described and need_onnx_file(settings.peers):
            _write_onnx_file(case, member)
    turns = Turns()
    peak = measure_peak()
    with _workers(who, folder, settings) as (workers, notes):
        prepared = {worker.contestant: found for worker, found in workers.items()}
        errors = {who: found.relative_error for who, found in prepared.items()}
        exact = not any(network.quantised for network in networks)
        require_agreement(subject.stem, errors, exact=exact)
        comparison = compare(
            {worker.contestant.name: partial(turns.time_ns, worker) for worker in workers},
            options=settings.options,
            ping_pong_ns=turns.ping_pong_ns,
        )
    macs = sum(network.macs for network in networks)
    return peer_record(
        replace(networks[0], name=subject.network, macs=macs),
        comparison,
        prepared,
        kernels_of(folder) if builds else (),
        best_peak(peak, measure_peak()),
        notes,
    )


def require_agreement(
    network: str, errors: Mapping[Contestant, float], *, exact: bool = True
) -> None:
    """Refuse outputs in float32 that differ from TVM's, and others that are no numbers.

    Parameters
    ----------
    network
        Network that ran.
    errors
        Largest difference of each output, relative to the largest value, by contestant.
    exact
        False for quantised networks, whose reference is the network that they were made of.
    """
    wrong = [
        f"{who.name} by {error:.2g}"
        for who, error in errors.items()
        if not (error <= TOLERANCE if exact and who.precision == FLOAT32 else math.isfinite(error))
    ]
    if wrong:
        raise PeerError(
            f"{network}: outputs differ from TVM's, relative to its largest value: "
            f"{', '.join(wrong)}; allowed is {TOLERANCE:g} in float32; compare the peer's "
            "operators with network.py, or export the network again"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure networks, each into a JSON file of its own; 0 when all is done.

    One that fails does not stop the others, and what was measured before is not measured again.
    """
    options = _parser().parse_args(arguments)
    failed = False
    try:
        settings = Settings(
            folder=options.folder,
            peers=tuple(options.peers),
            options=CompareOptions(
                warmup=0,  # who has the machine anew warms up by itself, if its runs are short
                number=options.number,
                rounds=options.rounds,
                min_repeat_ms=options.min_repeat_ms,
            ),
            our_python=options.our_python,
            load_limit_s=options.load_limit,
            lanes=options.lanes,
            one_thread=not options.all_threads,
        )
        options.output.mkdir(parents=True, exist_ok=True)
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for subject in options.networks:
        path = options.output / f"{subject.stem}.json"
        if not options.again and _is_newer(path, settings.folder / subject.stem):
            print(f"{subject.stem}: measured before, see {path}", flush=True)
            continue
        try:
            record = measure_network(subject, settings)
            write_text(path, record.to_json() + "\n")
        except (OSError, TvmIosError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            failed = True
            continue
        print(f"\n== {subject.stem} ==\n{record.comparison.as_text()}", flush=True)
        for note in record.notes[: len(record.notes) - len(record.comparison.notes)]:
            print(f"  note: {note}", flush=True)
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.measure",
        description="Measure us and the peers against each other: every contestant in one "
        "interleaved run, raw rounds into OUTPUT/NETWORK_bsBATCH.json.",
    )
    add_subject_options(parser)
    add = parser.add_argument
    add(
        "--peers",
        nargs="+",
        type=Peer,
        default=list(Peer),
        metavar="PEER",
        help=f"some of: {', '.join(repr(peer.value) for peer in Peer)} (all)",
    )
    our_python, output = ".venv/bin/python", Path("lab/results/peers")
    add("--our-python", default=our_python, help="the interpreter that has TVM (%(default)s)")
    add("--output", type=Path, default=output, help="for the JSON files (%(default)s)")
    add("--rounds", type=int, default=12, help="rounds that count (%(default)s)")
    add("--number", type=int, default=3, help="least runs of a contestant a round (%(default)s)")
    add("--min-repeat-ms", type=float, default=20.0, help="least length of a sample (%(default)s)")
    add("--load-limit", type=float, default=300.0, help="seconds to get ready (%(default)s)")
    lanes = default_lanes()
    add("--lanes", type=int, default=lanes, help="threads of peers (the cores there are)")
    add("--all-threads", action="store_true", help="no peer runs on one thread")
    add("--again", action="store_true", help="measure what was measured before, too")
    return parser


def _is_newer(result: Path, folder: Path) -> bool:
    """Whether a network was measured after all that it was measured from was written."""
    needed = [member / "network.json" for member in member_folders(folder)]
    sources = [*needed, *folder.glob("ours/*.json")]
    if not result.exists() or not all(source.exists() for source in needed):
        return False
    return result.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def _write_onnx_file(case: Case, folder: Path) -> None:
    try:
        from tvm_ios_lab.peers.onnx_file import current_onnx  # noqa: PLC0415 - names what is missing
    except ModuleNotFoundError as error:
        raise PeerError(
            f"the module {error.name} is not installed; run `lab/tvm_ios_lab/peers/setup.sh FOLDER`"
            " and use FOLDER/bin/python"
        ) from error
    current_onnx(case, folder)


@contextmanager
def _workers(
    who: Sequence[Contestant], folder: Path, settings: Settings
) -> Iterator[tuple[dict[Worker, Prepared], list[str]]]:
    """Contestants ready to run, and notes on those that took too long to compile."""
    prepared: dict[Worker, Prepared] = {}
    notes: list[str] = []
    pythons = {True: settings.our_python, False: sys.executable}
    with ExitStack() as stack:
        # A core for each that loads; all at once would need their memory at its peak at once.
        for first in range(0, len(who), default_lanes()):
            started = [
                Worker(one, folder, pythons[one.peer.is_ours])
                for one in who[first : first + default_lanes()]
            ]
            for worker in started:
                stack.callback(worker.close)
            for worker in started:
                try:
                    prepared[worker] = worker.prepared(settings.load_limit_s)
                except PeerError as error:
                    if worker.contestant.peer is not Peer.TORCH_COMPILE:
                        raise PeerError(f"{folder.name}: {error}") from error
                    notes.append(f"left out: {error}")
        yield prepared, notes


if __name__ == "__main__":
    sys.exit(main())
