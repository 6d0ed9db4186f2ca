from __future__ import annotations

import numpy as np
import pytest

import tvm_ios
from tests.relax.networks import TARGET, answers, inception_block
from tvm_ios.core.conversion import Conversion
from tvm_ios.driver.build_options import BuildOptions
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.relax.prepare import prepare
from tvm_ios.search.baselines import greedy_schedule


@pytest.fixture(scope="module")
def block():
    """An Inception block, a value for it, its graph, and the virtual machine's answer."""
    mod, value = inception_block()
    prepared = prepare(mod, None, TARGET)
    (answer,) = answers(prepared.module, value)
    return mod, value, prepared.extraction.graph, answer


def test_a_known_schedule(block):
    mod, value, graph, answer = block
    schedule = greedy_schedule(graph)
    model = tvm_ios.compile_schedule(mod, target=TARGET, schedule=schedule, lanes=2)
    assert model.schedule == schedule
    with model.executor() as executor:
        executor.run(x=value)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), answer)
    with pytest.raises(OptionError, match="the module is partitioned already"):
        tvm_ios.compile_schedule(model.module, target=TARGET, schedule=schedule)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TuneOptions(build=BuildOptions(libraries=("onednn",))), "by TVM alone"),
        (TuneOptions(conversion=Conversion(mixed_precision=True)), "compiled as they are"),
    ],
)
def test_what_relax_has_not_is_refused(block, options, message):
    with pytest.raises(OptionError, match=message):
        tvm_ios.compile_schedule(block[0], target=TARGET, options=options)


def test_other_things_are_refused():
    with pytest.raises(ModelError, match="got str"):
        tvm_ios.compile_schedule("model", target=TARGET)
