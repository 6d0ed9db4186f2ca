"""Decisions travel from one tuning to another, and are kept where they win the race."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.driver.test_tune import QUICK, TARGET
from tvm_ios.cli.main import main
from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import last_race
from tvm_ios.report.contestants import Contestant
from tvm_ios.runtime.artifact.decisions_file import read_decisions
from tvm_ios.search.baselines import sequential_schedule


def renamed(mod, params):
    """The model with other names for all variables but its input."""
    function = mod["main"]
    fresh = {
        each: relay.var("data" if each.name_hint == "data" else f"v{n}", each.type_annotation)
        for n, each in enumerate(function.params)
    }
    names = {old.name_hint: new.name_hint for old, new in fresh.items()}
    body = relay.bind(function.body, fresh)
    module = tvm.IRModule.from_expr(relay.Function([*fresh.values()], body))
    return module, {names[name]: value for name, value in params.items()}


@pytest.fixture(scope="module")
def peers(net, tmp_path_factory):
    """Decisions of a list on one lane, exported from a compiled file."""
    folder = tmp_path_factory.mktemp("peer")
    plain = net.compile(options=QUICK, lanes=1)
    listed = replace(sequential_schedule(plain.graph), home_lanes=(0,) * len(plain.graph))
    compiled = net.compile(schedule=listed, options=QUICK, lanes=1)
    compiled.export_library(folder / "net.so")
    file = folder / "net.decisions.json"
    assert main(["decisions", "export", str(folder / "net.so"), "-o", str(file)]) == 0
    return file


@pytest.fixture
def clocked(monkeypatch):
    """Says how long a run of given decisions takes; everything else takes 2 ms."""

    def set_times(given_ns):
        def race(models, **_options):
            times = tuple(given_ns if name.startswith("given") else 2e6 for name in models)
            one = CompareRound(run_ns=times, ping_pong_ns=0.0, slow=False)
            return Comparison(names=tuple(models), rounds=(one,) * 9, confidence=0.95, notes=())

        monkeypatch.setattr(last_race, "race", race)

    return set_times


@pytest.mark.slow
@pytest.mark.parametrize(("given_ns", "wins"), [(1e6, True), (4e6, False)])
def test_they_are_kept_where_they_win(net, peers, clocked, tmp_path, given_ns, wins):
    clocked(given_ns)
    mod, params = renamed(net.mod, net.params)
    call = {"database": tmp_path / "p.sqlite", "options": QUICK, "lanes": 2, "decisions": peers}
    model = tvm_ios.tune(mod, params, TARGET, **call)
    report = model.report()
    assert (report.kept is Contestant.GIVEN) == wins
    assert bool(model.schedule.home_lanes) == wins
    (line,) = report.given
    assert line.startswith(f"{peers}: given decisions, {'2.000' if wins else '0.500'} ")
    assert line in report.summary()
    assert line in report.as_text()
    net.assert_close(model)
    if wins:  # and travel on
        model.export_library(tmp_path / "mine.so")
        again = read_decisions(tmp_path / "mine.so")
        assert again.schedule.home_lanes == model.schedule.home_lanes
        assert again.origin.latency_ns == 1_000_000


@pytest.mark.slow
def test_those_of_another_model_are_told_and_the_call_goes_on(net, branching, tmp_path):
    other = tvm_ios.compile_schedule(*branching, TARGET, lanes=1)
    other.export_library(tmp_path / "other.so")
    model = net.tune(
        lanes=1, database=tmp_path / "p.sqlite", options=QUICK, decisions=[tmp_path / "other.so"]
    )
    (line,) = model.report().given
    assert "other.so: does not race: its model has another structure" in line


@pytest.mark.parametrize(
    ("decisions", "error", "message"),
    [(["no.json"], ArtifactError, "cannot read no.json"), (7, OptionError, "decisions is 7")],
)
def test_files_that_cannot_be_read_end_the_call_at_once(net, decisions, error, message):
    with pytest.raises(error, match=message):
        net.tune(options=QUICK, decisions=decisions)
