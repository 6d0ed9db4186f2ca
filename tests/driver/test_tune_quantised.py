"""``tune`` of quantised models: exported, exact, and in bfloat16 as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tvm_ios
from tests.bfloat16 import needs_bfloat16
from tests.driver.conftest import EXACT
from tests.driver.test_tune import QUICK
from tests.relay_modules import quantised_images
from tvm_ios.cli.main import main
from tvm_ios.host import host_target
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import build_choice

pytestmark = pytest.mark.slow(10)
HERE = f"{host_target()} -opt-level=0"  # LLVM need not optimise what runs a few times
BYTES = replace(QUICK, build=replace(QUICK.build, libraries=None))


@pytest.fixture(scope="module")
def quantised(make_net):
    return make_net(quantised_images(), {})


def tune(net, folder, options=BYTES, **given):
    given = {"database": folder / "p.sqlite", "lanes": 2, "options": options, **given}
    return tvm_ios.tune(net.mod, net.params, HERE, **given)


def test_what_is_kept_is_exported_shown_and_decides_elsewhere(quantised, tmp_path, capsys):
    model = tune(quantised, tmp_path)
    quantised.assert_close(model, atol=1e-4)
    told, lines = model.report().story.quantised, model.report().summary().splitlines()
    assert told in lines
    assert len(lines) <= 25
    assert told in model.report().to_html()
    assert told.startswith("quantised: ")
    assert "int8 model" not in model.report().as_text()
    path, decisions = tmp_path / "net.so", tmp_path / "decisions.json"
    model.export_library(path)
    with model.executor() as one, tvm_ios.load(path) as loaded:
        np.testing.assert_array_equal(quantised.run(loaded), quantised.run(one))
    assert main(["decisions", "export", str(path), "-o", str(decisions)]) == 0
    assert main(["decisions", "show", str(decisions)]) == 0
    assert "schedule" in capsys.readouterr().out
    (tmp_path / "elsewhere").mkdir()
    given = tune(quantised, tmp_path / "elsewhere", decisions=decisions)
    assert "does not race" not in given.report().given[0]
    quantised.assert_close(given, atol=1e-4)


def test_exact_models_have_the_bits_of_stock_tvm(quantised, tmp_path):
    model = quantised.tune(
        lanes=2, database=tmp_path / "p.sqlite", options=replace(QUICK, build=EXACT.build)
    )
    quantised.assert_equal(model)


@needs_bfloat16
def test_what_is_of_float32_may_be_bfloat16(quantised, tmp_path, monkeypatch):
    def race(models, **_options):
        times = tuple(1e6 if "bfloat16" in name else 2e6 for name in models)
        one = CompareRound(run_ns=times, ping_pong_ns=0.0, slow=False)
        return Comparison(names=tuple(models), rounds=(one,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    model = tune(quantised, tmp_path, precision="bfloat16")
    told = model.report().story.precision
    assert told.is_low
    assert 0 < told.worst < 0.03
    quantised.assert_close(model, atol=0.03 * np.abs(quantised.expected).max())
    model.export_library(tmp_path / "net.so")
    with model.executor() as one, tvm_ios.load(tmp_path / "net.so") as loaded:
        np.testing.assert_array_equal(quantised.run(loaded), quantised.run(one))
