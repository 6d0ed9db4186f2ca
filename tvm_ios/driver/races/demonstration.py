"""Demonstration of ``tvm-ios demo``: tunes networks, races them against stock TVM, draws them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.races.stock_contestants import STOCK_ALL, STOCK_ONE, race_with_stock
from tvm_ios.driver.tune import tune
from tvm_ios.errors import ArtifactError
from tvm_ios.host import host_target, processor_name
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.models import by_name
from tvm_ios.report.chrome_trace import write_chrome_trace
from tvm_ios.report.figure import draw_if_possible
from tvm_ios.report.table import comparison_table
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.whole_file import make_output_folder
from tvm_ios.tuning.options import TuningOptions

__all__ = ["demonstrate"]

OURS = "tvm-ios"
TIME_BUDGET_S = 240.0
"""Seconds for tuning a network."""
TRIALS = 8
"""Candidates of each task, of the two dozen that fit the network's data layouts."""
TUNING_TIME_BUDGET_S = 150.0
"""Seconds for tuning the kernels of a network."""
TUNED_TIME_BUDGET_S = 270.0
"""Seconds for a network whose kernels are tuned too: two of them take about ten minutes."""


def demonstrate(
    networks: Sequence[str],
    *,
    lanes: int,
    folder: Path,
    database: Path | None = None,
    tuned: bool = False,
) -> None:
    """Tune networks one after another; print a race against stock TVM, write traces and pictures.

    With ``tuned``, AutoTVM tunes the kernels first, into a log in the folder.
    """
    factories = [(name, by_name(name)) for name in networks]
    make_output_folder(folder)
    print(f"{processor_name()}, {lanes} lanes, target {host_target()}", flush=True)
    log = folder / "autotvm.log"
    wanted: dict[str, Any] = {"time_budget": TIME_BUDGET_S}
    if tuned:
        kernels = TuningOptions(trials=TRIALS, time_budget_s=TUNING_TIME_BUDGET_S)
        wanted = {
            "time_budget": TUNED_TIME_BUDGET_S,
            "tuning": "autotvm",
            "tuning_records": log,
            "options": TuneOptions(kernels=kernels),
        }
    for name, factory in factories:
        mod, params = factory()
        with StderrProgress() as progress:
            model = tune(mod, params, lanes=lanes, database=database, progress=progress, **wanted)
        plain = build_model(mod, params, name=name, sink=False)
        race = race_with_stock(plain, {OURS: model}, lanes=lanes, options=CompareOptions())
        print(f"\n== {name} ==\n{_as_text(race, model)}")
        print(_write_files(model, name, folder), flush=True)
    if tuned:
        print(f"the records are in {log}; the next call measures none of them again", flush=True)


def _as_text(race: Comparison, model: CompiledModel) -> str:
    """Race as a table, tuned kernels if any, and what was kept and why."""
    table = comparison_table(race, baselines=(STOCK_ONE, STOCK_ALL))
    report = model.report()
    return "\n".join(
        [
            *([report.tuning] if report.tuning else []),
            table.as_text(),
            "(medians of interleaved rounds with 95 % intervals; stock TVM has untuned kernels)",
            f"tune keeps {report.summary().removeprefix('kept ')}",
        ]
    )


def _write_files(model: CompiledModel, name: str, folder: Path) -> str:
    """Write trace, schedule and picture of a model; return a line that names them."""
    trace, picture = folder / f"{name}.trace.json", folder / f"{name}.png"
    schedule = folder / f"{name}.schedule.json"
    with model.executor() as executor:
        events = tuple(executor.trace())
    try:
        schedule.write_text(model.schedule.to_json())
        write_chrome_trace(events, trace, name=name)
    except OSError as error:
        raise ArtifactError(
            f"cannot write to {folder}: {error}; choose another --output"
        ) from error
    drawn = draw_if_possible(model.graph, model.schedule, picture)
    said = str(picture) if drawn else "no picture without matplotlib"
    return f"wrote {trace} (open it in Perfetto), {schedule}, {said}"
