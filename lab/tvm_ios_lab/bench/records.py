"""Stored benchmark results: one versioned JSON file for each network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_ios.errors import ArtifactError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.support.stored_value import UnreadableValueError, parse_json
from tvm_ios_lab.measurement import Measurement, text_fields

__all__ = ["RECORD_VERSION", "BenchmarkRecord"]

RECORD_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord(Measurement):
    """Benchmark result with all that a document has to name: machine, versions, command, …."""

    network: str
    batch_size: int
    target: str
    """TVM target of the kernels."""
    lanes: int
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
                **self.origin(),
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
        """Record in the JSON of :meth:`to_json`; medians are computed anew from the rounds."""
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
                **cls.read_origin(data),
                facts=text_fields(data.field("facts")),
                notes=data.field("notes").texts(),
                comparison=Comparison.from_record(data.field("comparison")),
            )
        except UnreadableValueError as error:
            raise ArtifactError(
                f"not a benchmark record: {error}; expected the JSON that BenchmarkRecord.to_json "
                "writes"
            ) from error
