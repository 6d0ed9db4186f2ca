"""Layout of a Relax model's images: raced once, remembered, and never in the way."""

from __future__ import annotations

import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.driver.dialects import relax_layout
from tvm_ios.driver.dialects.relax_layout import LIKED, OWN, ModelLayouts
from tvm_ios.errors import ModelError, OutOfTimeError
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.target import resolve_target
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary


@pytest.fixture
def mod():
    """Two convolutions, in NCHW."""
    network = Network(1, 8, 6, 6)
    return network.build(lambda net: net.conv(net.conv(net.x, 8, 3), 4, 1))


def layouts(mod, *libraries, params=None):
    return ModelLayouts(mod=mod, params=params, target=resolve_target(TARGET), libraries=libraries)


def is_nhwc(laid_out, mod) -> bool:
    """True for images in NHWC, False for those of the model."""
    found = laid_out.built.graph.fingerprint()
    own, nhwc = (
        prepare(mod, None, TARGET, image_layout=layout).extraction.graph.fingerprint()
        for layout in (None, "NHWC")
    )
    assert own != nhwc
    assert found in (own, nhwc)
    return found == nhwc


@pytest.fixture
def call(tmp_path):
    return MeasuringCall.here(lanes=1, database=tmp_path / "db")


@pytest.mark.parametrize("kept", [LIKED, OWN])
def test_the_winner_of_the_race_is_kept_and_known_again(kept, mod, call, monkeypatch):
    asked = []

    def raced(*builds_and_call):
        asked.append(builds_and_call)
        return BuildChoice(kept=kept, notes=("as raced",), certain=True)

    monkeypatch.setattr(relax_layout, "_raced", raced)
    for _ in range(2):
        found = layouts(mod, OnednnLibrary()).fastest(call, race_forms=True)
        assert is_nhwc(found, mod) is (kept == LIKED)
        assert found.notes[0].startswith("as raced")
    assert len(asked) == 1


def test_a_race_without_time_leaves_the_layout_of_the_library(mod, call, monkeypatch):
    def raced(*_):
        raise OutOfTimeError("there was no time left")

    monkeypatch.setattr(relax_layout, "_raced", raced)
    assert is_nhwc(layouts(mod, OnednnLibrary()).fastest(call, race_forms=True), mod)
    assert call.budget.cuts == (f"a build with {OWN} was not raced: there was no time left",)


def test_without_races_or_libraries_nothing_is_raced(mod, call, monkeypatch):
    monkeypatch.setattr(relax_layout, "_raced", None)
    assert is_nhwc(layouts(mod, OnednnLibrary()).fastest(call, race_forms=False), mod)
    assert not is_nhwc(layouts(mod).fastest(call, race_forms=True), mod)
    network = Network(2, 4)
    plain = network.build(lambda net: net.emit(relax.op.nn.relu(net.x)))
    assert not layouts(plain, OnednnLibrary()).fastest(call, race_forms=True).notes


def test_a_layout_that_tvm_cannot_make_is_told(mod, call, monkeypatch):
    def failing(*args, image_layout=None, **options):
        if image_layout is not None:
            raise RuntimeError("somewhere\nno rule for it")
        return prepare(*args, **options)

    monkeypatch.setattr(relax_layout, "prepare", failing)
    found = layouts(mod, OnednnLibrary()).fastest(call, race_forms=True)
    assert not is_nhwc(found, mod)
    assert found.notes == (f"{OWN}, since NHWC cannot be had: no rule for it",)


def test_what_is_wrong_with_the_model_is_told_of_the_model(mod):
    with pytest.raises(ModelError, match="main has no parameter 'w'"):
        _ = layouts(mod, OnednnLibrary(), params={"w": 1.0}).first
