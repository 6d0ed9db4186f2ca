"""Races with other frameworks: the programs of ``lab/tvm_ios_lab/peers``, each where it can run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import ArtifactError, HostError
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.whole_file import write_text
from tvm_ios.tuning.guard import guarded_workers
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench, Settings
from tvm_ios_lab.places import ROOT, python_path

__all__ = [
    "ALL_PEERS",
    "TORCH",
    "KernelRecipe",
    "PeerGroup",
    "PeerRace",
    "Raced",
    "peer_group",
    "peer_race",
]

TORCH = ("torch", "torch channels last", "torch compile")
"""Ways to run PyTorch, as the programs name them."""
ALL_PEERS = (*TORCH, "onnxruntime", "openvino")
"""And those of their whole graphs."""
OURS = "tvm-ios"
SEARCHED = ("ios", "ios + list")
"""Schedules that the search has found, as builds are named."""
LEAST_LIMIT_S = 7200.0
"""Seconds that a program may take at least, however small the time budget."""
TRIAL_S = 10.0
"""More than a candidate of a kernel search takes."""
_MODULE = "tvm_ios_lab.peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerGroup:
    """A part of a cell: who races against us."""

    ways: tuple[str, ...]
    """Ways to run other frameworks, as the programs name them."""

    def __str__(self) -> str:
        """Frameworks of the group, in words."""
        return f"against {', '.join(self.ways)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecipe:
    """Recipe of a set of our kernels."""

    text: str
    """Text of the TOML file that `tvm-ios tune --config` reads."""
    log: Path | None = None
    """Tuning records that are used though nothing is tuned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """Race with other frameworks, and what took no part."""

    record: BenchmarkRecord
    left_out: tuple[str, ...]
    """Contestants that took no part, and why, a line each."""

    def fastest(self, peers: Sequence[str]) -> str | None:
        """The fastest contestant of these peers, with whatever threads; None where none raced."""
        race = self.record.comparison
        names = [name for name in race.names if name.rpartition(",")[0] in peers]
        return min(names, key=race.median_ns, default=None)

    def orders(self, kernels: str) -> tuple[str | None, str | None]:
        """Our contestants with a set of kernels: sequential order, and what IOS has found.

        None where they did not race: what IOS found does not where it is sequential order.
        """
        race = self.record.comparison
        facts = self.record.facts
        orders = {
            facts[f"schedule of {name}"]: name
            for name in race.names
            if facts.get(f"kernels of {name}") == kernels
        }
        found = [orders[order] for order in SEARCHED if order in orders]
        return orders.get("sequential"), min(found, key=race.median_ns, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRace:
    """A network at a batch size that is exported, built by us, and raced against peers."""

    network: str
    batch: int
    lanes: int
    rounds: int
    folder: Path
    """Folder of networks, builds and the results of races."""
    against: PeerGroup | None
    """Frameworks to race against; None where we race ourselves."""
    peers_python: Path | None
    """Interpreter that has the peers."""
    limit_s: float
    """Seconds that each program may take."""

    def run(self, recipes: Mapping[str, KernelRecipe]) -> Raced:
        """Race all builds and the peers; what was exported and built goes when the race is over.

        Parameters
        ----------
        recipes
            Recipe of each set of kernels, by its name.
        """
        stem = f"{self.network}_bs{self.batch}"
        networks, results = self.folder / "networks", self.folder / "races"
        records = ("--records", str(self.folder / "logs"))
        where = ("--folder", str(networks), "--networks", f"{self.network}:{self.batch}")
        if not (networks / stem / "network.json").exists():
            self._run("export", sys.executable, where)
        kernels = [self._written(name, recipe) for name, recipe in recipes.items()]
        builds = networks / stem / "ours"
        for path in builds.glob("*.json"):
            if path.stem not in recipes:
                path.unlink()
        lanes = ("--lanes", str(self.lanes))
        left_out = self._run(
            "ours",
            sys.executable,
            (*where, *lanes, *records, "--kernels", *kernels),
            may_fail=True,
        )
        if not list(builds.glob("*.json")):
            raise HostError(f"nothing of ours was built for {stem}: {'; '.join(left_out)}")
        python, peers = sys.executable, [OURS]
        if self.against is None or self.peers_python is None:
            left_out.append("no other framework on this machine; give --peers-python")
        else:
            python, peers = str(self.peers_python), [*self.against.ways, OURS]
        results.mkdir(parents=True, exist_ok=True)
        self._run(
            "measure",
            python,
            (
                *where,
                *lanes,
                *("--output", str(results), "--our-python", sys.executable),
                *("--rounds", str(self.rounds), "--number", "1", "--again"),
                *(("--all-threads",) if self.batch > 1 else ()),
                *("--peers", *peers),
            ),
        )
        path = results / f"{stem}.json"
        try:
            record = BenchmarkRecord.from_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error}; measure it again") from error
        shutil.rmtree(networks / stem)  # gigabytes, and the next run is to build anew
        left_out += [note for note in record.notes if note.startswith("left out: ")]
        return Raced(record=record, left_out=tuple(left_out))

    def _written(self, name: str, recipe: KernelRecipe) -> str:
        """``NAME=FILE`` or ``NAME=FILE+LOG``, as programs take it."""
        path = (self.folder / "recipes" / f"{name}.toml").resolve()
        write_text(path, recipe.text)
        return f"{name}={path}" + (f"+{recipe.log}" if recipe.log else "")

    def _run(
        self, program: str, python: str, words: Sequence[str], *, may_fail: bool = False
    ) -> list[str]:
        """Errors that a program tells, a line each; nothing where all is well."""
        command = [python, "-m", f"{_MODULE}.{program}", *words]
        try:
            # What one of them leaves behind would disturb all that is measured later.
            with guarded_workers(threads=self.lanes):
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=os.environ | {"PYTHONPATH": python_path()},
                    timeout=self.limit_s,
                    capture_output=True,
                    text=True,
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            raise HostError(
                f"{program} of {self.network} at batch {self.batch} took longer than "
                f"{self.limit_s:.0f} s; give a larger --time-budget"
            ) from error
        except OSError as error:
            raise HostError(f"cannot run {python}: {error}; mend --peers-python") from error
        errors = list(_errors(done.stderr))
        if done.returncode and not errors:  # it crashed, or was killed
            said = lines_that_tell(done.stderr, "it gave no reason")[-1]
            errors = [f"{program} ended with {done.returncode}: {said}"]
        if done.returncode and not may_fail:
            why = "; ".join(errors)
            raise HostError(f"{program} of {self.network} at batch {self.batch} failed: {why}")
        return errors


def peer_group(settings: Settings, ways: tuple[str, ...]) -> PeerGroup | None:
    """Frameworks that race under these settings; None where no interpreter has them."""
    return PeerGroup(ways=ways) if settings.peers else None


def peer_race(
    network: str, run: CpuRun, against: PeerGroup | None, bench: Bench, *, trials: int = 0
) -> PeerRace:
    """The race of a measured cell.

    Parameters
    ----------
    network
        Name of the network in the programs.
    trials
        Candidates of the kernel searches that building it takes.
    """
    return PeerRace(
        network=network,
        batch=run.batch,
        lanes=run.lanes,
        rounds=run.rounds,
        folder=bench.folder,
        against=against,
        peers_python=bench.peers_python,
        limit_s=max(LEAST_LIMIT_S, 4 * bench.time_budget) + TRIAL_S * trials,
    )


def _errors(said: str) -> Iterator[str]:
    """Errors that programs tell, a line each."""
    for line in said.splitlines():
        found = re.search(r"\berror: (.*)", line)
        if found:
            yield found[1]
