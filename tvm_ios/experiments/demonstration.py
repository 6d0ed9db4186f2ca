"""What ``tvm-ios demo`` does: evaluate networks, print the comparison, draw the schedules.

With ``--tuned`` it tunes their kernels instead, and compares tuned with untuned ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm_ios.errors import ArtifactError
from tvm_ios.experiments.benchmark import make_output_folder
from tvm_ios.experiments.evaluation import IOS, Evaluation, evaluate
from tvm_ios.experiments.harness.pictures import draw_if_possible
from tvm_ios.experiments.tuned_benchmark import evaluate_tuned
from tvm_ios.host import host_target, processor_name
from tvm_ios.models import by_name
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.report.chrome_trace import write_chrome_trace
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.tuned_kernels import TuningRequest

__all__ = ["demonstrate", "demonstrate_tuned"]

TIME_BUDGET_S = 240.0
"""Seconds for a network, but for the last race."""
TRIALS = 8
"""Candidates of each task, of the two dozen that fit the network's data layouts."""
TUNING_TIME_BUDGET_S = 150.0
"""Seconds for tuning the kernels of a network."""
TUNED_TIME_BUDGET_S = 270.0
"""Seconds for a network whose kernels are tuned too: two of them take about ten minutes."""


def demonstrate(
    networks: Sequence[str], *, lanes: int, folder: Path, database: Path | None = None
) -> None:
    """Evaluate networks one after another; print tables, write traces and pictures.

    Parameters
    ----------
    folder
        Where files go; made if absent.
    """
    factories = [(name, by_name(name)) for name in networks]
    _begin(folder, lanes)
    for name, factory in factories:
        mod, params = factory()
        with StderrProgress() as progress:
            call = MeasuringCall.here(
                lanes=lanes, database=database, time_budget=TIME_BUDGET_S, progress=progress
            )
            found = evaluate(mod, params, call, name=name)
        print(f"\n== {name} ==")
        print(found.as_text())
        print(_write_files(found, name, folder))


def demonstrate_tuned(
    networks: Sequence[str], *, lanes: int, folder: Path, database: Path | None = None
) -> None:
    """Tune the kernels of networks one after another and print what that and scheduling bring.

    Parameters
    ----------
    folder
        Where the log of AutoTVM goes; what it holds already is not measured again.
    """
    factories = [(name, by_name(name)) for name in networks]
    _begin(folder, lanes)
    log = folder / "autotvm.log"
    options = TuningOptions(trials=TRIALS, time_budget_s=TUNING_TIME_BUDGET_S)
    request = TuningRequest(backend="autotvm", records=(log,), options=options)
    for name, factory in factories:
        mod, params = factory()
        with StderrProgress() as progress:
            call = MeasuringCall.here(
                lanes=lanes, database=database, time_budget=TUNED_TIME_BUDGET_S, progress=progress
            )
            found = evaluate_tuned(mod, params, request, call, name=name)
        print(f"\n== {name} ==")
        print(found.as_text())
        print(f"the records are in {log}; the next call measures none of them again", flush=True)


def _begin(folder: Path, lanes: int) -> None:
    make_output_folder(folder)
    print(f"{processor_name()}, {lanes} lanes, target {host_target()}", flush=True)


def _write_files(found: Evaluation, name: str, folder: Path) -> str:
    trace, picture = folder / f"{name}.trace.json", folder / f"{name}.png"
    schedule = folder / f"{name}.schedule.json"
    ios = found.models[IOS]
    try:
        schedule.write_text(ios.schedule.to_json())
        write_chrome_trace(found.trace, trace, name=f"{name} {IOS}")
    except OSError as error:
        raise ArtifactError(
            f"cannot write to {folder}: {error}; choose another --output"
        ) from error
    drawn = draw_if_possible(ios.graph, ios.schedule, picture, found.stage_prices_ns)
    said = str(picture) if drawn else "no picture without matplotlib"
    return f"wrote {trace} (open it in Perfetto), {schedule}, {said}"
