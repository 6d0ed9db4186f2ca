"""Our builds of a network as they lie in its folder: exported files, and what was done for them.

Written in the project's environment, read in that of the peers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.peers.errors import PeerError

__all__ = [
    "Build",
    "Kernels",
    "builds_of",
    "exported_path",
    "forget_kernels",
    "kept_build",
    "kernels_of",
    "write_kernels",
]

_FOLDER = "ours"
_AGAIN = "make it again: python -m tvm_ios_lab.peers.ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Exported build: one schedule on one set of kernels."""

    kernels: str
    """Name of the set."""
    schedule: str
    """``sequential``, ``greedy``, ``ios`` …"""
    lanes: int
    kept: bool
    """Whether ``tune`` would have returned it."""
    precision: str = FLOAT32
    """Precision that ``tune`` was asked for; it keeps float32 where that is faster."""

    @property
    def name(self) -> str:
        """Name of the build among contestants."""
        return f"{self.kernels} {self.schedule}"

    def path(self, folder: Path) -> Path:
        """The exported file, in the network's folder."""
        return exported_path(folder, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """A set of kernels, and how it came about."""

    name: str
    """Chosen by who made it, as ``tuned``."""
    builds: tuple[Build, ...]
    configuration: str
    """The TOML of its options."""
    target: str
    command: str
    versions: tuple[tuple[str, str], ...]
    seconds: float
    """Seconds from the network to the exported files."""
    report: str
    """Report of ``tune`` on the kernels."""


def exported_path(folder: Path, build: str) -> Path:
    """Path of the build of that name, in the network's folder."""
    return folder / _FOLDER / f"{build.replace(' ', '-').replace(',', '')}.so"


def write_kernels(kernels: Kernels, folder: Path) -> None:
    """Write to the network's folder what was done; the exported files are there already."""
    write_text(_record_path(folder, kernels.name), json.dumps(asdict(kernels), indent=1) + "\n")


def forget_kernels(name: str, folder: Path) -> None:
    """Delete what the network's folder says of kernels that are to be made anew."""
    _record_path(folder, name).unlink(missing_ok=True)


def kernels_of(folder: Path) -> tuple[Kernels, ...]:
    """Sets of kernels in a network's folder, by name."""
    found = []
    for path in sorted((folder / _FOLDER).glob("*.json")):
        try:
            data = json.loads(path.read_text())
            builds = tuple(Build(**build) for build in data["builds"])
            versions = tuple((name, version) for name, version in data["versions"])
            kernels = Kernels(**{**data, "builds": builds, "versions": versions})
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise PeerError(f"{path} does not say what was built: {error}; {_AGAIN}") from error
        for build in builds:
            if not build.path(folder).exists():
                raise PeerError(f"{build.path(folder)} is gone; {_AGAIN}")
        found.append(kernels)
    return tuple(found)


def builds_of(folder: Path) -> tuple[Build, ...]:
    """Builds in a network's folder."""
    builds = tuple(build for kernels in kernels_of(folder) for build in kernels.builds)
    if not builds:
        raise PeerError(
            f"{folder} has no build of ours; make one: python -m tvm_ios_lab.peers.ours"
        )
    return builds


def kept_build(folder: Path) -> Build:
    """Build that ``tune`` kept, of the last set of kernels in a network's folder."""
    return [build for build in builds_of(folder) if build.kept][-1]


def _record_path(folder: Path, kernels: str) -> Path:
    return folder / _FOLDER / f"{kernels}.json"
