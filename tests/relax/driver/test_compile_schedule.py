from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tvm_ios
from tests.relax.networks import TARGET, answers, inception_block
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.conversion import Conversion
from tvm_ios.core.schedule import LibraryOperators, Stage, Strategy
from tvm_ios.driver.build_options import BuildOptions
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.relax.prepare import prepare
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule, make_schedule


@pytest.fixture(scope="module")
def block():
    """An Inception block, a value for it, its graph, and the virtual machine's answer."""
    mod, value = inception_block()
    prepared = prepare(mod, None, TARGET)
    (answer,) = answers(prepared.module, value)
    return mod, value, prepared.extraction.graph, answer


@pytest.fixture(scope="module")
def found(block):
    """The block with oneDNN."""
    return build_model(block[0], None, TARGET, libraries=(OnednnLibrary(),))


@pytest.mark.slow
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


@pytest.mark.slow(2)
@pytest.mark.parametrize("libraries", [None, ()])
def test_a_schedule_of_another_layout_with_calls(block, found, libraries):
    mod, value, _, answer = block
    operators = enumerate(found.graph.operators)
    convolutions = tuple(index for index, each in operators if each.kind.startswith("conv2d"))
    rows = (LibraryOperators("onednn", convolutions[:2]),)
    schedule = replace(greedy_schedule(found.graph), libraries=rows)
    options = TuneOptions(build=BuildOptions(libraries=libraries))
    for given in ({"schedule": schedule}, {}):
        model = lower_schedule(found, schedule, lanes=2).module if not given else mod
        model = tvm_ios.compile_schedule(model, target=TARGET, options=options, lanes=2, **given)
        calls = [launch for launch in model.plan.launches if launch.call is not None]
        assert len(calls) == (2 if libraries is None else 0)
        with model.executor() as executor:
            executor.run(x=value)
            found_value = executor.get_output(0).numpy()
        np.testing.assert_allclose(found_value, answer, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_named_library_computes_all_that_it_can(block):
    options = TuneOptions(build=BuildOptions(libraries=("onednn",)))
    model = tvm_ios.compile_schedule(block[0], target=TARGET, options=options)
    assert sum(launch.call is not None for launch in model.plan.launches) >= 7


@pytest.mark.slow
def test_exact_schedules_merge_nothing(block):
    mod, value, graph, answer = block
    branches = [n for n, each in enumerate(graph.operators) if each.convolution is not None]
    operand = graph.operators[branches[0]].convolution.operand
    members = [n for n in branches if graph.operators[n].convolution.operand == operand]
    others = [Stage(((n,),)) for n in range(len(graph)) if n not in members]
    merge = Stage(tuple((n,) for n in members), Strategy.MERGE)
    schedule = make_schedule(graph, (merge, *others), "test")
    exact = TuneOptions(build=BuildOptions(exact=True))
    model = tvm_ios.compile_schedule(mod, target=TARGET, schedule=schedule, lanes=2)
    with model.executor() as executor:
        executor.run(x=value)
        np.testing.assert_allclose(executor.get_output(0).numpy(), answer, rtol=1e-4, atol=1e-5)
    for given in ({"mod": mod, "schedule": schedule}, {"mod": model.module}):
        with pytest.raises(OptionError, match="merges convolutions, which gives sums other bits"):
            tvm_ios.compile_schedule(**given, target=TARGET, options=exact)


@pytest.mark.slow(1)
def test_a_conversion_is_refused(block):
    options = TuneOptions(conversion=Conversion(mixed_precision=True))
    with pytest.raises(OptionError, match="mixed_precision=True needs a TVM with Relay"):
        tvm_ios.compile_schedule(block[0], target=TARGET, options=options)


def test_other_things_are_refused():
    with pytest.raises(ModelError, match="got str"):
        tvm_ios.compile_schedule("model", target=TARGET)
