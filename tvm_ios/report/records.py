"""Benchmark results as they are stored: one versioned JSON file for each network."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tvm_ios.errors import ArtifactError, CostError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = ["RECORD_VERSION", "BenchmarkRecord", "NamedValue"]

RECORD_VERSION = 1


@dataclass(frozen=True, slots=True)
class NamedValue:
    """One fact of a machine or one version of a program."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord:
    """Everything a number in a document has to name: machine, versions, command, raw rounds."""

    network: str
    batch_size: int
    target: str
    """The TVM target the kernels were built for."""
    lanes: int
    command: str
    """The command that makes this record."""
    machine: tuple[NamedValue, ...]
    """Processor, cores, memory, kernel …"""
    versions: tuple[NamedValue, ...]
    """tvm-ios, TVM, LLVM, Python …"""
    taken_at: str
    """ISO 8601, in UTC."""
    comparison: Comparison
    facts: tuple[NamedValue, ...] = ()
    """What else is worth keeping: stages, prices, seconds by phase."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Versioned JSON with medians beside the raw rounds; :meth:`from_json` reads it back."""
        return json.dumps(
            {
                "version": RECORD_VERSION,
                "network": self.network,
                "batch_size": self.batch_size,
                "target": self.target,
                "lanes": self.lanes,
                "command": self.command,
                "machine": {fact.name: fact.value for fact in self.machine},
                "versions": {fact.name: fact.value for fact in self.versions},
                "taken_at": self.taken_at,
                "facts": {fact.name: fact.value for fact in self.facts},
                "notes": list(self.notes),
                "median_ns": {
                    name: self.comparison.median_ns(name) for name in self.comparison.names
                },
                "comparison": self.comparison.as_record(),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> BenchmarkRecord:
        """Read what :meth:`to_json` wrote; medians are computed anew from the rounds.

        Raises
        ------
        ArtifactError
            If the text is no JSON, of another version, or lacks a field or has one of another kind.
        """
        try:
            data = parse_json(text, "the record")
            version = data.field("version").whole()
            if version != RECORD_VERSION:
                raise ArtifactError(
                    f"benchmark record has version {version!r}, this tvm-ios reads version "
                    f"{RECORD_VERSION}; run the benchmark again with the installed version"
                )
            return cls(
                network=data.field("network").text(),
                batch_size=data.field("batch_size").whole(),
                target=data.field("target").text(),
                lanes=data.field("lanes").whole(),
                command=data.field("command").text(),
                machine=_named_values(data.field("machine")),
                versions=_named_values(data.field("versions")),
                taken_at=data.field("taken_at").text(),
                facts=_named_values(data.field("facts")),
                notes=data.field("notes").texts(),
                comparison=Comparison.from_record(data.field("comparison").value),
            )
        except (UnreadableValueError, CostError) as error:
            raise ArtifactError(
                f"not a benchmark record: {error}; expected the JSON that BenchmarkRecord.to_json "
                "writes"
            ) from error


def _named_values(data: StoredValue) -> tuple[NamedValue, ...]:
    return tuple(NamedValue(name, value.text()) for name, value in data.fields().items())
