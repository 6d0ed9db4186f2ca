"""Decisions travel from one tuning in Relax to another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.relax.driver.test_tune import OWN_KERNELS, ran, two_branches
from tests.relax.networks import TARGET, Network, answers
from tvm_ios.cli.main import main
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.tune import tune_race
from tvm_ios.errors import ArtifactError
from tvm_ios.relax.prepare import fuse, prepare
from tvm_ios.report.contestants import Contestant
from tvm_ios.search.baselines import sequential_schedule


def tune(mod, decisions, database):
    given = {"lanes": 2, "options": OWN_KERNELS, "database": database}
    return tvm_ios.tune(mod, None, TARGET, decisions=decisions, **given)


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """Decisions of a list on one lane, exported from a compiled file."""
    folder = tmp_path_factory.mktemp("peer")
    mod, _ = two_branches()
    graph = tvm_ios.compile_schedule(mod, None, TARGET, lanes=1, options=OWN_KERNELS).graph
    listed = replace(sequential_schedule(graph), home_lanes=(0,) * len(graph))
    compiled = tvm_ios.compile_schedule(
        mod, None, TARGET, schedule=listed, lanes=1, options=OWN_KERNELS
    )
    compiled.export_library(folder / "net.so")
    file = folder / "net.decisions.json"
    assert main(["decisions", "export", str(folder / "net.so"), "-o", str(file)]) == 0
    return file


@pytest.mark.slow(2)
def test_they_race_on_the_kernels_of_here(peers, tmp_path):
    mod, value = two_branches()
    call = TuneCall(
        mod=mod,
        target=TARGET,
        lanes=2,
        options=OWN_KERNELS,
        database=tmp_path / "db",
        decisions=peers,
    )
    race = tune_race(call)
    (line,) = race.kept.report().given
    assert line.startswith(f"{peers}: given decisions")
    given = race.models[Contestant.GIVEN]
    assert given.schedule.home_lanes == (0,) * len(given.graph)
    answer = answers(prepare(mod, None, TARGET).module, value)[0]
    np.testing.assert_array_equal(ran(given, value), answer)


@pytest.mark.slow(3)
def test_those_of_other_layouts_are_built_in_them(tmp_path):
    """A form that prices of here do not choose; kernels of both have the same bits."""
    network = Network(1, 8, 6, 6)
    mod = network.build(lambda net: net.conv(net.conv(net.x, 8, 3), 16, 1))
    form = ImageForm(layouts=(CHANNELS_LAST, BLOCKS))
    graph = fuse(mod, None, TARGET, image_layout=form).extraction.graph
    schedule = replace(sequential_schedule(graph), form=form, libraries=())
    file = tmp_path / "there.json"
    file.write_text(schedule.to_json())
    call = TuneCall(mod=mod, target=TARGET, lanes=1, database=tmp_path / "db", decisions=file)
    race = tune_race(call)
    given = race.models[Contestant.GIVEN]
    assert given.schedule.form == form
    assert given.graph.fingerprint() == graph.fingerprint()
    expected = answers(mod, network.value())[0]
    np.testing.assert_allclose(ran(given, network.value()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(1)
def test_those_of_another_model_are_told_and_the_call_goes_on(peers, tmp_path):
    network = Network(1, 3, 6, 6)
    mod = network.build(lambda net: net.emit(tvm.relax.op.nn.relu(net.x)))
    (line,) = tune(mod, [peers], tmp_path / "db").report().given
    assert "does not race: its model has another structure" in line


def test_files_that_cannot_be_read_end_the_call_at_once(tmp_path):
    mod, _ = two_branches()
    with pytest.raises(ArtifactError, match=r"cannot read no\.json"):
        tune(mod, ["no.json"], tmp_path / "db")
