"""``tune`` on small real networks: tuned, run, exported, loaded, and refused where wrong."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.driver.test_compile_schedule import mathematics
from tests.stock import stock_executor
from tvm_ios import BuildOptions, Conversion, DatabaseOptions, SearchOptions, TuneOptions
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Strategy
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.driver.tune import TuneCall, tune_race
from tvm_ios.errors import DatabaseError, ModelError, OptionError, ScheduleError
from tvm_ios.host import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.models import nasnet_small
from tvm_ios.passes import ScheduleOperators
from tvm_ios.profile.find_schedules import SETTLED
from tvm_ios.profile.in_time.first_answer import FASTER_FORM, FIRST
from tvm_ios.report.html.report_page import ReportPage
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.artifact.footer import read_story
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.support.progress import Progress

# A busy machine is no concern of these tests: no waiting, and no price that is worth replacing.
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM)
COMPARE = CompareOptions(rounds=6, min_repeat_ms=0.5, mode=CALM)
QUICK = TuneOptions(measure=MEASURE, compare=COMPARE, build=BuildOptions(libraries=()))
SEARCHED = replace(QUICK, search=SearchOptions(least_gain_percent=0.0))
"""Options that look for other orders however little prices promise of them."""
EXACT = replace(QUICK, build=BuildOptions(exact=True))
"""Options whose models have the bits of stock TVM."""
TARGET = "llvm -opt-level=0"  # LLVM need not optimise what runs a few times


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("front-door") / "prices.sqlite"


@pytest.fixture(scope="module")
def tuned(net, database: Path) -> tvm_ios.CompiledModel:
    return net.tune(database=database, options=SEARCHED)


@pytest.mark.full
@pytest.mark.slow
def test_a_real_network_is_tuned_exported_and_right(
    make_net: Callable[..., Any], tmp_path: Path
) -> None:
    cell = make_net(*nasnet_small(filters=16, size=8, num_cells=1))
    tuned = cell.tune(database=tmp_path / "prices.sqlite", options=EXACT)
    tuned.export_library(tmp_path / "cell.so")
    with tuned.executor() as executor, tvm_ios.load(tmp_path / "cell.so") as loaded:
        np.testing.assert_array_equal(cell.run(executor), cell.expected)
        np.testing.assert_array_equal(cell.run(loaded), cell.expected)
    greedy = cell.compile(schedule=greedy_schedule(tuned.graph), options=EXACT)
    cell.assert_equal(greedy)


@pytest.mark.slow
def test_what_is_known_of_a_model_is_not_known_of_its_exact_build(
    make_net: Callable[..., Any], tmp_path: Path
) -> None:
    """In one database exact calls pad no channels, merge nothing, and have prices of their own."""
    net = make_net(*mathematics())
    call = {"database": tmp_path / "prices.sqlite", "lanes": 1}
    told = []
    for options in (QUICK, EXACT, EXACT, QUICK):
        model = net.tune(options=options, **call)
        assert not any(stage.is_merge for stage in model.schedule.stages) or options is QUICK
        with model.executor() as executor:
            found = net.run(executor)
        np.testing.assert_allclose(found, net.expected, rtol=1e-5)
        assert np.array_equal(found, net.expected) is (options is EXACT)
        told.append(model.report())
    first, exact, again, last = (report.measured for report in told)
    assert exact >= 2  # GELU and softmax; what lacks mathematics has one price
    assert first
    assert again == last == 0
    assert not any("padded" in note for report in told[1:3] for note in report.notes)


@pytest.mark.slow
def test_a_race_has_all_schedules_and_the_one_that_is_kept(
    net, tuned: tvm_ios.CompiledModel, database: Path
) -> None:
    """The second call in this database, so its race may be known; still all racers are compiled."""
    given = {"mod": net.mod, "params": net.params, "target": TARGET}
    raced = tune_race(TuneCall(**given, database=database, options=SEARCHED))
    kept = raced.models[raced.kept.report().kept]
    assert raced.kept.schedule == kept.schedule
    assert set(raced.models) >= {Contestant.SEQUENTIAL, Contestant.GREEDY}
    assert {who.value for who in raced.models} == set(raced.kept.report().comparison.names)
    for model in raced.models.values():
        net.assert_close(model)


@pytest.mark.slow(1)
def test_a_tuned_model_computes_what_stock_tvm_computes(net, tuned: tvm_ios.CompiledModel) -> None:
    with tuned.executor(tvm.cpu()) as executor:
        np.testing.assert_allclose(net.run(executor), net.expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(1)
def test_the_report_accounts_for_the_whole_model(tuned: tvm_ios.CompiledModel) -> None:
    report = tuned.report()
    counts = report.counts()
    assert counts["operators"] == len(tuned.graph) == len(tuned.schedule.operator_names)
    assert counts["stages"] == len(tuned.schedule.stages)
    assert "100.0%" in report.coverage
    assert counts["stages_priced"] <= counts["stages_possible"]
    assert report.measured > 0
    assert set(report.phase_s) == {"build", "search", "lower", "compare"}
    assert f"kept {report.kept.value}" in report.as_text()
    assert len(report.comparison.rounds) >= 6


@pytest.mark.slow(1)
def test_the_kept_model_is_traced_and_a_page_shows_it(
    tuned: tvm_ios.CompiledModel, tmp_path: Path
) -> None:
    evidence = tuned.report().evidence
    # Its parts of split launches count as one; what is a view is not launched.
    launched = {tuned.plan.launches[i].operator for g in tuned.plan.groups for i in g.launches}
    assert {event.operator for event in evidence.traced.timeline} == launched
    assert {event.lane for event in evidence.traced.timeline} <= set(range(evidence.lanes))
    stages = {group.stage for group in tuned.plan.groups}
    assert {s for s, ns in enumerate(evidence.traced.stage_ns) if ns is not None} == stages
    assert len(evidence.prices_ns) == len(tuned.schedule.stages)
    page = tuned.report().to_html(title="the net", command="some command")
    assert "<title>the net" in page
    assert "some command" in page
    assert page.count('<g class="op"') == len(tuned.graph)
    told = json.loads(tuned.report().to_json())["story"]
    assert told["schedule"] == json.loads(tuned.schedule.to_json())
    assert told["traced"]["runs"] == evidence.traced.runs > 0
    # A file brings all of it along.
    tuned.export_library(tmp_path / "net.so")
    story = read_story(tmp_path / "net.so")
    assert story.evidence == evidence
    assert tuned.story() == story
    assert ReportPage(story=story, title="the net", command="some command").to_html() == page


@pytest.mark.slow
@pytest.mark.skipif(default_lanes() < 2, reason="one core: there is no second lane")
def test_a_list_made_from_the_ios_schedule_races_as_well(branching_net, database: Path) -> None:
    tuned = branching_net.tune(database=database, options=SEARCHED)
    assert set(tuned.report().comparison.names) >= {"sequential", "ios + list"}


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["list", "ios"])
def test_the_pass_measures_on_its_own(
    net, database: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(database.parent / "cache"))
    scheduled = ScheduleOperators(
        target=TARGET,
        params=net.params,
        scheduler=scheduler,
        search=SearchOptions.of(strategies={"concurrent"}),
        exact=True,
    )
    with tvm.transform.PassContext(opt_level=3):
        module = scheduled(net.mod)
    compiled = tvm_ios.compile_schedule(module, target=TARGET, options=EXACT)
    assert compiled.schedule.scheduler == scheduler
    if scheduler == "list":
        assert len(compiled.schedule.home_lanes) == len(compiled.graph)
        assert all(compiled.schedule.operator_ns)
    net.assert_equal(compiled)


@pytest.mark.slow
def test_a_second_tuning_measures_nothing(net, tmp_path: Path) -> None:
    """On one lane: with more, a race decides which operators are split, and may decide anew."""
    options = {"lanes": 1, "database": tmp_path / "prices.sqlite", "options": QUICK}
    first = net.tune(**options).report()
    again = net.tune(**options).report()
    assert first.measured > 0
    assert first.from_database == 0
    assert again.measured == 0
    assert again.from_database == first.measured
    assert (again.comparison.rounds, again.kept) == (first.comparison.rounds, first.kept)
    assert any("is that of an earlier call" in note for note in again.notes)
    assert again.phase_s.keys() == first.phase_s.keys()
    assert not any("is that of an earlier call" in note for note in first.notes)
    assert f"measured now: {first.measured} prices, " in first.remembered
    assert f"taken from {options['database']}, measured on 2" in again.remembered
    assert f": {first.measured} prices, " in again.remembered
    assert "the last race; nothing had to be measured" in again.remembered
    options["options"] = replace(QUICK, compare=replace(COMPARE, reuse=False))
    anew = net.tune(**options).report()
    assert anew.comparison.rounds != first.comparison.rounds
    assert "; measured now: the last race" in anew.remembered
    options["options"] = replace(QUICK, database=DatabaseOptions(fresh=True))
    fresh = net.tune(**options).report()
    assert (fresh.measured > 0, fresh.from_database) == (True, 0)
    assert fresh.remembered.startswith("measured now: ")
    # What it measured has taken the place of what was there.
    options["options"] = QUICK
    last = net.tune(**options).report()
    assert last.measured == 0
    assert last.comparison.rounds == fresh.comparison.rounds


@pytest.mark.slow
def test_the_partitioned_module_runs_with_plain_relay_build(
    net, tuned: tvm_ios.CompiledModel
) -> None:
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tuned.module, target=TARGET)
    found = net.run(stock_executor(library))
    np.testing.assert_allclose(found, net.expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(1)
def test_an_exported_model_is_loaded_back(
    net, tuned: tvm_ios.CompiledModel, tmp_path: Path
) -> None:
    path = tmp_path / "model.so"
    tuned.export_library(path)
    with tuned.executor() as here, tvm_ios.load(path) as loaded:
        np.testing.assert_array_equal(net.run(loaded), net.run(here))


@pytest.mark.slow
def test_merged_stages_are_priced_compiled_and_right(branching_net, database: Path) -> None:
    net = branching_net
    steps: list[Progress] = []
    tuned = net.tune(
        database=database,
        options=replace(QUICK, search=SearchOptions.of(strategies=["merge"])),
        progress=steps.append,
    )
    assert {step.phase for step in steps} == {"build", "search", "lower", "compare"}
    # The price decides in tune; here the merge is asked for.
    stages = _merge_first_convolutions(tuned.graph)
    merged = replace(tuned.schedule, stages=stages, home_lanes=())
    compiled = net.compile(schedule=merged)
    assert any(stage.strategy is Strategy.MERGE for stage in compiled.schedule.stages)
    net.assert_close(compiled, atol=1e-4)


@pytest.mark.slow
def test_merges_that_pad_kernels_are_not_even_searched(branching_net, database: Path) -> None:
    possible = {}
    for padded in (True, False):
        tuned = branching_net.tune(
            lanes=1,
            database=database,
            options=replace(
                QUICK, search=SearchOptions.of(strategies=["merge"], pad_merged_kernels=padded)
            ),
        )
        counts = tuned.report().counts()
        possible[padded] = counts["stages_possible"]
        assert padded or counts["padded_kernels"] == 0
    # Of the first level's 1x1, 3x3 and 1x1 all four sets may merge, or one; of the second's
    # 3x3 and 1x1 both, or none.
    assert possible[True] - possible[False] == 3 + 1


def _merge_first_convolutions(graph: OperatorGraph) -> tuple[tvm_ios.Stage, ...]:
    convolutions = [operator.convolution for operator in graph.operators]
    first = next(convolution for convolution in convolutions if convolution is not None)
    members = [i for i, c in enumerate(convolutions) if c and c.operand == first.operand]
    assert len(members) == 3
    stages = [tvm_ios.Stage(((i,),)) for i in range(len(graph)) if i not in members]
    position = sum(stage.operators[0] < members[0] for stage in stages)
    merged = tvm_ios.Stage(tuple((index,) for index in members), Strategy.MERGE)
    return (*stages[:position], merged, *stages[position:])


class _InterruptError(KeyboardInterrupt):
    """Ctrl-C at a known moment."""


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_priced_and_leaves_the_best_so_far(
    branching_net, tmp_path: Path
) -> None:
    best: list[tvm_ios.CompiledModel] = []

    def interrupt(step: Progress) -> None:
        if step.model is not None:
            best.append(step.model)
        if step.phase == "search" and (step.done or 0) > 0:
            raise _InterruptError

    options = {"database": tmp_path / "prices.sqlite", "options": QUICK}
    with pytest.raises(_InterruptError) as caught:
        branching_net.tune(progress=interrupt, **options)
    assert any("prices.sqlite" in note for note in caught.value.__notes__)
    branching_net.assert_close(best[-1])
    resumed = branching_net.tune(**options).report()
    assert resumed.from_database > 0


@pytest.mark.slow
def test_a_list_alone_prices_no_stages(net, tmp_path: Path) -> None:
    options = replace(QUICK, search=SearchOptions(list_only=True))
    database = tmp_path / "prices.sqlite"
    model = net.tune(database=database, options=options)
    report = model.report()
    counts = report.counts()
    assert counts["stages_priced"] == counts["stages_possible"] == counts["operators"]
    names = set(report.comparison.names)
    assert "ios" not in names
    assert names <= {"sequential", "greedy", "ios + list"}
    net.assert_close(model)


@pytest.mark.slow
def test_a_quick_call_builds_once_and_searches_no_stages(net, tmp_path: Path) -> None:
    given = {"database": tmp_path / "prices.sqlite", "lanes": 1}
    report = net.tune(effort="quick", **given).report()
    assert not any(phase.startswith(("build ", "check ")) for phase in report.phase_s)
    counts = report.counts()
    assert counts["stages_possible"] == counts["operators"]
    assert set(report.comparison.names) <= {"sequential", "ios + list"}
    assert any("are predictions by the speeds of a lane" in note for note in report.notes)


@pytest.mark.slow
def test_a_time_budget_of_nothing_is_sequential_order_as_it_is_built(net, tmp_path: Path) -> None:
    tuned = net.tune(
        time_budget=1e-6,
        database=tmp_path / "prices.sqlite",
        options=replace(QUICK, compare=replace(COMPARE, rounds=8)),
    )
    report = tuned.report()
    least, *cuts = report.notes  # a busy machine adds some
    assert re.fullmatch(r"the least this call can take here is [0-9.]+ s", least)
    assert "for time_budget=1e-06, operators were not priced, and no other order was tried" in cuts
    assert any(each.startswith("for time_budget=1e-06, a race of 1 had") for each in cuts)
    late = "preparing and compiling the model, and writing it, cannot be cut"
    assert any(late in each for each in cuts)
    assert report.measured == 0
    assert len(report.comparison.rounds) < 8  # as many as fit into a moment
    assert report.reason.startswith("nothing else was raced within the time budget")
    assert "kept sequential" in report.summary()
    assert report.to_html(title="cut short")
    assert json.loads(report.to_json())["stages_priced"] == 0
    with closing(sqlite3.connect(tmp_path / "prices.sqlite")) as connection:
        kept = connection.execute("SELECT subject FROM facts").fetchall()
    assert not any(subject.startswith("race") for (subject,) in kept)
    net.assert_close(tuned)


@pytest.mark.slow
def test_models_come_early_and_get_better(net, tmp_path: Path) -> None:
    steps: list[Progress] = []
    tuned = net.tune(database=tmp_path / "prices.sqlite", options=QUICK, progress=steps.append)
    told = [step for step in steps if step.model is not None]
    assert told[0].detail == FIRST
    assert {step.detail for step in told[1:]} <= {FASTER_FORM, SETTLED}
    for step in told:
        net.assert_close(step.model)
    assert not tuned.interim


@pytest.mark.slow
def test_a_budget_with_time_for_all_cuts_nothing(net, tmp_path: Path) -> None:
    given = {"database": tmp_path / "prices.sqlite", "options": QUICK}
    report = net.tune(time_budget=600, **given).report()
    assert report.measured > 0
    cuts = [note for note in report.notes if note.startswith("for time_budget=600, ")]
    # What cannot gain is not searched, however much time there is.
    assert all("no other order was tried: " in cut for cut in cuts)
    assert [note for note in report.notes if note.startswith("the least this call can take")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": SearchOptions()}, r"options is SearchOptions\(.*\); give TuneOptions"),
        ({"lanes": 0}, "lanes is 0"),
        ({"lanes": 4096}, "may use .* cores"),
        ({"time_budget": -1}, "time_budget is -1"),
        ({"target": "cuda"}, "cuda"),
        ({"target": "no_such_target"}, "no_such_target"),
        ({"mod": tvm.IRModule(), "params": {}}, "main"),
        ({"params": []}, "params is a list; give arrays by name"),
    ],
)
def test_a_bad_option_is_named(net, options: dict[str, object], message: str) -> None:
    given = {"mod": net.mod, "params": net.params, "target": TARGET} | options
    with pytest.raises((OptionError, ModelError), match=message):
        tvm_ios.tune(**given)


@pytest.mark.slow
def test_a_missing_parameter_is_named(net) -> None:
    name, *_ = sorted(net.params)
    params = {key: value for key, value in net.params.items() if key != name}
    with pytest.raises(ModelError, match=name):
        tvm_ios.tune(net.mod, params, TARGET)


@pytest.mark.slow(1)
def test_an_unreadable_database_is_refused_before_any_work(net, tmp_path: Path) -> None:
    path = tmp_path / "not.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseError, match=r"not\.sqlite"):
        net.tune(database=path)
    assert path.read_bytes() == b"no database at all" * 100


HALF_NHWC = Conversion(desired_layout="NHWC", mixed_precision=True)


@pytest.mark.slow
def test_a_schedule_of_another_layout_and_type_is_compiled_again(net, tmp_path):
    found = net.tune(
        database=tmp_path / "prices.sqlite", options=replace(QUICK, conversion=HALF_NHWC)
    )
    assert any("the model was converted" in note for note in found.report().notes)
    again = net.compile(schedule=found.schedule, options=TuneOptions(conversion=HALF_NHWC))
    for compiled in (found, again):
        with compiled.executor() as executor:
            output = net.run(executor)
        assert output.dtype == "float32"
        np.testing.assert_allclose(output, net.expected, atol=2e-2 * np.abs(net.expected).max())
    path = tmp_path / "half.so"
    found.export_library(path)
    with tvm_ios.load(path) as loaded:
        np.testing.assert_array_equal(net.run(loaded), output)
    with pytest.raises(ScheduleError, match="layout and types it was found with; this is layouts"):
        net.compile(schedule=found.schedule)


def test_options_of_another_kind_and_old_keywords_are_refused(net):
    for refuse in (tvm_ios.tune, tvm_ios.compile_schedule):
        with pytest.raises(OptionError, match="options is None; give TuneOptions"):
            refuse(net.mod, net.params, TARGET, options=None)
        with pytest.raises(TypeError, match="unexpected keyword argument 'tf32'"):
            refuse(net.mod, net.params, TARGET, tf32=True)


MASKED_INPUTS = {
    "data": np.random.default_rng(2).standard_normal((1, 16, 8, 8)).astype("float32"),
    "mask": np.random.default_rng(3).random((1, 16, 8, 8)) > 0.5,
}


def assert_as_stock(executor: Any, stock: Any) -> None:
    executor.run(**MASKED_INPUTS)
    for index in range(stock.get_num_outputs()):
        ours, theirs = executor.get_output(index), stock.get_output(index)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.slow
def test_truth_values_may_be_inputs_and_outputs(
    masked: tuple[tvm.IRModule, dict[str, Any]],
    reference_build: Callable[..., Any],
    tmp_path: Path,
) -> None:
    stock = stock_executor(reference_build(*masked, TARGET))
    for name, value in MASKED_INPUTS.items():
        stock.set_input(name, value)
    stock.run()
    assert stock.get_output(1).dtype == "bool"
    compiled = tvm_ios.compile_schedule(*masked, TARGET)
    with compiled.executor() as executor:
        assert_as_stock(executor, stock)
    tuned = tvm_ios.tune(
        *masked,
        TARGET,
        database=tmp_path / "prices.sqlite",
        options=replace(QUICK, build=BuildOptions(libraries=(), pad_channels=False)),
        lanes=1,
    )
    tuned.export_library(tmp_path / "masked.so")
    with tvm_ios.load(tmp_path / "masked.so") as executor:
        assert_as_stock(executor, stock)
        assert_as_stock(executor, stock)
