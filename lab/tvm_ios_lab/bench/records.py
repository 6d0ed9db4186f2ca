"""Stored benchmark results: one versioned JSON file for each network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_ios.errors import ArtifactError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = ["RECORD_VERSION", "BenchmarkRecord"]

RECORD_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord:
    """A benchmark result with all that a document has to name: machine, versions, command, …."""

    network: str
    batch_size: int
    target: str
    """TVM target of the kernels."""
    lanes: int
    command: str
    """Command that makes this record."""
    machine: Mapping[str, str]
    """Facts of the machine: processor, cores, memory, kernel, …."""
    versions: Mapping[str, str]
    """Versions of tvm-ios, TVM, LLVM, Python, …."""
    taken_at: str
    """Time of the measurement, ISO 8601, in UTC."""
    comparison: Comparison
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further facts by name: stages, prices, seconds by phase."""
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
                "machine": dict(self.machine),
                "versions": dict(self.versions),
                "taken_at": self.taken_at,
                "facts": dict(self.facts),
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
        """Record in the JSON of :meth:`to_json`; medians are computed anew from the rounds.

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
                machine=_texts(data.field("machine")),
                versions=_texts(data.field("versions")),
                taken_at=data.field("taken_at").text(),
                facts=_texts(data.field("facts")),
                notes=data.field("notes").texts(),
                comparison=Comparison.from_record(data.field("comparison")),
            )
        except UnreadableValueError as error:
            raise ArtifactError(
                f"not a benchmark record: {error}; expected the JSON that BenchmarkRecord.to_json "
                "writes"
            ) from error


def _texts(data: StoredValue) -> dict[str, str]:
    return {name: value.text() for name, value in data.fields().items()}
