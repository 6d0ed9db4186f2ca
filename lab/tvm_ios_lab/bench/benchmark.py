"""Work of ``tvm-ios bench``: evaluate networks, store the records, write the table from them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.races.stock_contestants import STOCK_ALL, STOCK_LANES, STOCK_ONE
from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.models import by_name
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.report.table import Table
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.whole_file import make_output_folder, write_text
from tvm_ios_lab.bench.evaluation import (
    GREEDY,
    IOS,
    SEQUENTIAL,
    Evaluation,
    evaluate,
)
from tvm_ios_lab.bench.records import BenchmarkRecord

__all__ = [
    "BenchmarkSettings",
    "around_table",
    "benchmark_record",
    "measure_models",
    "read_record",
    "write_between",
    "write_table",
]

MARKERS = ("<!-- results: begin -->", "<!-- results: end -->")
RECORDS = "*_bs*.json"
"""Names of records; measurements of another kind may lie beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSettings:
    """Settings of a benchmark."""

    batch_size: int | None
    """Images of networks of :mod:`tvm_ios.models`; None for one, and for files what they say."""
    lanes: int
    rounds: int
    time_budget: float
    database: Path | None
    folder: Path | None
    """Folder of the records; None writes none."""

    def call(self, progress: ProgressListener | None = None) -> MeasuringCall:
        """The call of one network, which begins now."""
        return MeasuringCall.here(
            lanes=self.lanes,
            database=self.database,
            time_budget=self.time_budget,
            progress=progress,
            compare=CompareOptions(rounds=self.rounds),
        )


def measure_models(
    models: Sequence[str], settings: BenchmarkSettings, say: Callable[[str], None]
) -> list[BenchmarkRecord]:
    """Measure models one after another; a record is written as soon as its model is done.

    Parameters
    ----------
    models
        Networks of :mod:`tvm_ios.models`, and files in Relay or ONNX.
    say
        Function that is told of every result.
    """
    folder = settings.folder
    if folder is not None:
        _require_own_records(models, folder)
    sources = [(name, _source(name, settings.batch_size)) for name in models]
    settings.call()  # what cannot be honoured is refused before any work
    if folder is not None:
        make_output_folder(folder)
    records = []
    for named, source in sources:
        name, (mod, params) = Path(named).stem, source()
        with StderrProgress() as progress:
            found = evaluate(mod, params, settings.call(progress), name=name)
        say(f"\n== {name} ==\n{found.as_text()}")
        records.append(_record(name, found, settings))
        if folder is not None:
            path = folder / f"{name}_bs{records[-1].batch_size}.json"
            write_text(path, records[-1].to_json() + "\n")
            say(f"wrote {path}")
    return records


def _require_own_records(models: Sequence[str], folder: Path) -> None:
    first: dict[str, str] = {}
    for model in models:
        stem = Path(model).stem
        if stem in first:
            raise OptionError(
                f"the records of {first[stem]} and {model} would be one file in {folder}; leave "
                "out one of them, or rename its file"
            )
        first[stem] = model


def _source(name: str, batch_size: int | None) -> Callable[[], tuple[Any, Any]]:
    """Function that gives a model; files are read now: bad ones are told before any work."""
    if not (Path(name).suffix or Path(name).exists()):
        return partial(by_name(name), batch_size=1 if batch_size is None else batch_size)
    model = ModelSource.of(name, None, InputShapes(batch_size=batch_size))
    return lambda: (model.mod, model.params)


def write_table(folder: Path, readme: Path) -> None:
    """Put the table of all records between the two markers of a Markdown file."""
    records = [read_record(path) for path in sorted(folder.glob(RECORDS))]
    if not records:
        raise ArtifactError(f"no results in {folder}; run `tvm-ios bench` first")
    records.sort(key=lambda record: record.comparison.median_ns(IOS))
    write_between(readme, results_table(records))


def write_between(readme: Path, table: Table, markers: tuple[str, str] = MARKERS) -> None:
    """Put a table between two markers of a Markdown file."""
    before, after = around_table(readme, markers)
    begin, end = markers
    write_text(readme, f"{before}{begin}\n{table.as_markdown()}\n{end}{after}")


def around_table(readme: Path, markers: tuple[str, str] = MARKERS) -> tuple[str, str]:
    """Text before and after the table of a Markdown file; empty if there is no file."""
    try:
        text = readme.read_text() if readme.exists() else "\n".join([*markers, ""])
    except OSError as error:
        raise ArtifactError(f"cannot read {readme}: {error}; choose another --table") from error
    before, begin, rest = text.partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not begin or not end:
        raise ArtifactError(
            f"{readme} has no lines {markers[0]!r} and {markers[1]!r}; add them where the table "
            "should go"
        )
    return before, after


def read_record(path: Path) -> BenchmarkRecord:
    """A stored record; an error names its file."""
    try:
        return BenchmarkRecord.from_json(path.read_text())
    except (OSError, ArtifactError) as error:
        raise ArtifactError(f"{path}: {error}") from error


def results_table(records: Sequence[BenchmarkRecord]) -> Table:
    """Table with a row a network: milliseconds, and what IOS brings over each baseline."""
    rows = []
    for record in records:
        comparison = record.comparison
        best = min((STOCK_ONE, STOCK_ALL), key=comparison.median_ns)
        latencies = [
            f"{comparison.median_ns(name) / 1e6:.3f}" for name in (best, SEQUENTIAL, GREEDY, IOS)
        ]
        kept = record.facts.get("kept", IOS)
        ratios = []
        for base in (best, STOCK_LANES, SEQUENTIAL):
            speedup = comparison.speedup(kept, over=base) if kept != base else None
            ratios.append(
                "1"
                if speedup is None
                else f"{speedup.ratio:.3f} ({speedup.low:.3f}-{speedup.high:.3f})"
            )
        rows.append((record.network, str(record.batch_size), *latencies, kept, *ratios))
    header = (
        "network",
        "batch",
        "best TVM ms",
        "sequential ms",
        "greedy ms",
        f"{IOS} ms",
        "kept",
        "kept over best TVM",
        "kept over TVM on our launch path",
        "kept over sequential",
    )
    return Table(header=header, rows=tuple(rows))


def _record(name: str, found: Evaluation, settings: BenchmarkSettings) -> BenchmarkRecord:
    ios = found.models[IOS]
    search = found.searches[IOS]
    facts: dict[str, object] = {
        "kept": found.kept,
        "operators": len(ios.graph),
        "stages": len(ios.schedule.stages),
        "merged stages": sum(stage.is_merge for stage in ios.schedule.stages),
        "stages possible": search.distinct_stages,
        "stages priced": search.priced,
        "predicted ms": f"{search.latency_ns / 1e6:.4f}",
        "predicted sequential ms": f"{search.sequential_ns / 1e6:.4f}",
        "activation MB": f"{ios.plan.arena_bytes / 1e6:.2f}",
        "workloads measured": found.counters.priced,
        "workloads from database": found.counters.from_database,
        **{f"{phase} s": f"{seconds:.1f}" for phase, seconds in found.phase_s.items()},
    }
    return benchmark_record(name, found.built, found.comparison, facts, found.notes, settings)


def benchmark_record(
    name: str,
    built: BuiltModel,
    comparison: Comparison,
    facts: Mapping[str, object],
    notes: tuple[str, ...],
    settings: BenchmarkSettings,
) -> BenchmarkRecord:
    """The record of a network that this command has measured on this machine, just now."""
    batch_size = settings.batch_size
    return BenchmarkRecord.here(
        shlex.join(["tvm-ios", *sys.argv[1:]]),
        network=name,
        batch_size=_first_extent(built) if batch_size is None else batch_size,
        target=str(built.prepared.target),
        lanes=settings.lanes,
        comparison=comparison,
        facts={key: str(value) for key, value in facts.items()},
        notes=notes,
    )


def _first_extent(built: BuiltModel) -> int:
    """Extent of the first dimension of the first input that has one."""
    shapes = (value.checked_type.shape for value in built.prepared.module["main"].params)
    return next((int(shape[0]) for shape in shapes if len(shape)), 1)
