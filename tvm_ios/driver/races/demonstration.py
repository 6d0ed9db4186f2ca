"""Demonstration of ``tvm-ios demo``: tunes networks, races them with others, draws their runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tvm_ios.compile.model import CompiledModel
from tvm_ios.devices.local import LocalCpu
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.races.peers import PeerContestant, installed_peers
from tvm_ios.driver.races.stock_contestants import race_with_stock, stock_kernels
from tvm_ios.driver.tune import TuneCall, TuneRace, tune_race
from tvm_ios.errors import ArtifactError, HostError
from tvm_ios.host import host_target, processor_name
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.models import by_name
from tvm_ios.models.weights import Network
from tvm_ios.plan.lanes import CORES
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.profile.race import executors_of
from tvm_ios.report.bottleneck import bottleneck
from tvm_ios.report.chrome_trace import write_chrome_trace
from tvm_ios.report.contestants import ABOUT, Contestant
from tvm_ios.report.labels import duration
from tvm_ios.report.lanes_figure import DrawnRun, draw_runs
from tvm_ios.report.table import comparison_table
from tvm_ios.search.ceiling import ceiling_of
from tvm_ios.support.progress import PhaseClock, Progress, ProgressListener
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.whole_file import make_output_folder

__all__ = ["demonstrate"]

OURS, IN_ORDER = "tvm-ios", "sequential order"
RACE = CompareOptions(mode=ModeOptions(patience_s=5.0))
"""Options of all races: enough rounds for an interval, and no long wait on a busy machine."""
WARM_UP, TRACES = 3, 25
"""Runs before the traces of a model, and the number of its traces."""


def demonstrate(
    networks: Sequence[str],
    *,
    lanes: int,
    folder: Path,
    effort: str,
    database: Path | None = None,
) -> None:
    """Tune networks one after another; print a race of each, and draw what was kept."""
    factories = [(name, by_name(name)) for name in networks]
    make_output_folder(folder)
    print(f"{processor_name()}, {lanes} lanes, target {host_target()}", flush=True)
    for name, factory in factories:
        with StderrProgress() as progress:
            shown = _Demonstration(
                name=name,
                network=factory(),
                lanes=lanes,
                progress=_Steps(network=name, show=progress),
            )
            text = shown.of(TuneOptions.of(effort, compare=RACE), database, folder)
        print(f"\n== {name} ==\n{text}", flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Listener that names the network in each phase, and counts time from its first step."""

    network: str
    show: ProgressListener
    begin_s: float = field(default_factory=time.monotonic)

    def __call__(self, step: Progress) -> None:
        phase, elapsed_s = f"{self.network}: {step.phase}", time.monotonic() - self.begin_s
        self.show(replace(step, phase=phase, elapsed_s=elapsed_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demonstration:
    """Demonstration of one network."""

    name: str
    network: Network
    lanes: int
    progress: ProgressListener

    def of(self, options: TuneOptions, database: Path | None, folder: Path) -> str:
        """Text on the network, tuned with these options; pictures go to the folder."""
        mod, params = self.network
        tuned = tune_race(
            TuneCall(
                mod=mod,
                params=params,
                lanes=self.lanes,
                database=database,
                progress=self.progress,
                options=options,
            )
        )
        clock = PhaseClock(self.progress)
        with clock.phase("build stock TVM"):
            plain = stock_kernels(mod, params)
            peers = installed_peers(mod, params, lanes=self.lanes)
        models = _models(tuned)
        with clock.phase("race"):
            race = race_with_stock(
                plain,
                models,
                lanes=self.lanes,
                options=RACE,
                others={peer.name: peer.time_ns for peer in peers},
            )
        with clock.phase("draw"):
            files = _write_files(self.name, models, race, folder)
        return "\n".join((_as_text(race, tuned.kept, peers), files))


def _models(tuned: TuneRace) -> dict[str, CompiledModel]:
    """Models to race by name: sequential order, and what was kept where that is another one."""
    if tuned.kept.report().kept is Contestant.SEQUENTIAL:
        return {OURS: tuned.kept}
    return {IN_ORDER: tuned.racers[Contestant.SEQUENTIAL].compiled(), OURS: tuned.kept}


def _as_text(race: Comparison, kept: CompiledModel, peers: Sequence[PeerContestant]) -> str:
    """Race as a table, a line on each row, and why it came out so."""
    base = IN_ORDER if IN_ORDER in race.names else OURS
    who = kept.report().kept
    about = {
        **ABOUT,
        **{peer.name: peer.explanation for peer in peers},
        IN_ORDER: ABOUT[Contestant.SEQUENTIAL.value],
        OURS: f"what tune kept, {who.value}: {ABOUT[who.value]}",
    }
    width = max(map(len, race.names))
    return "\n".join(
        [
            comparison_table(race, baselines=(base,)).as_text(),
            "(medians of interleaved rounds, and the 95 % interval of the ratio in a round)",
            *(f"  {name.ljust(width)}  {about[name]}" for name in race.names),
            *_why(kept),
            *(f"note: {note}" for note in race.notes),
        ]
    )


def _why(kept: CompiledModel) -> list[str]:
    """Lines on what scheduling can gain, by the prices that were measured, and what else would."""
    report, operator_ns = kept.report(), kept.schedule.operator_ns
    lanes = [report.evidence.lanes]
    found = ceiling_of(kept.graph, operator_ns, lanes, hand_over=CORES, splits=True)
    told = [
        f"why: {found.verdict(found.rows[0])}; by prices measured here, {found.operators} "
        f"operators take {duration(found.work_ns)} on one lane, the longest chain of them "
        f"{duration(found.critical_ns)}"
    ]
    if report.kept is Contestant.SEQUENTIAL and not found.is_chain:
        told.append(f"tune kept sequential order: {report.reason}")
    slowest = bottleneck(report.story)
    return [*told, *([f"bottleneck: {slowest}"] if slowest else [])]


def _traced(
    models: Mapping[str, CompiledModel], race: Comparison
) -> dict[str, Sequence[TraceEvent]]:
    """Traced run of each model: of several, the one nearest to its median in the race."""
    runs: dict[str, Sequence[TraceEvent]] = {}
    with LocalCpu().open() as session, executors_of(models, session) as executors:
        for who, executor in executors.items():
            executor.trace(WARM_UP)
            # The second of two runs: the first one finds lanes asleep.
            traces = [executor.trace(2) for _ in range(TRACES)]
            median_ns = race.median_ns(who)
            runs[who] = min(traces, key=lambda each: abs(_length_ns(each) - median_ns))
    return runs


def _length_ns(events: Sequence[TraceEvent]) -> int:
    return max(each.end_ns for each in events)


def _write_files(
    name: str, models: Mapping[str, CompiledModel], race: Comparison, folder: Path
) -> str:
    """Write trace and schedule of what was kept, and a picture; return a line that names them."""
    trace, picture = folder / f"{name}.trace.json", folder / f"{name}.png"
    schedule = folder / f"{name}.schedule.json"
    runs = _traced(models, race)
    try:
        schedule.write_text(models[OURS].schedule.to_json())
        write_chrome_trace(runs[OURS], trace, name=name)
    except OSError as error:
        raise ArtifactError(
            f"cannot write to {folder}: {error}; choose another --output"
        ) from error
    drawn = [
        DrawnRun(
            title=f"{who}: {race.median_ns(who) / 1e6:.4f} ms in the race; the run that is drawn, "
            f"whose launches were timed, {_length_ns(events) / 1e6:.4f} ms",
            lanes=models[who].plan.lanes,
            events=events,
        )
        for who, events in runs.items()
    ]
    try:
        draw_runs(drawn, picture, title=name)
        said = str(picture)
    except HostError as error:
        said = f"no picture: {error}"
    return f"wrote {trace} (open it in Perfetto), {schedule}, {said}"
