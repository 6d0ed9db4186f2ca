"""Kernels that a build leaves out: which, and that all goes on without them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from tvm import autotvm, relay

import tvm_ios
from tests.pricing import LANES, MEASURE
from tests.small_networks import few_fires
from tvm_ios import BuildOptions, TuneOptions
from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import LibraryOperators, Stage, Strategy
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.traits import CPU, GPU
from tvm_ios.host.onednn_files import find_onednn
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile.fastest_build import absent_functions
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.operator_prices import TVM, OperatorChoice
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.kernels import digest_of_call
from tvm_ios.relay.prepare import prepare
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.runtime.libraries.placed_calls import library_calls
from tvm_ios.search.baselines import sequential_schedule

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
DATA = np.random.default_rng(0).uniform(-1, 1, (1, 3, 64, 64)).astype("float32")
ONEDNN = OnednnLibrary()
has_onednn = pytest.mark.skipif(
    find_onednn().version is None, reason=f"no oneDNN here: {find_onednn().reason}"
)


@dataclass
class FakeLibrary:
    """Library that computes all convolutions, and its own device."""

    price_ns: int
    name: str = "fake"

    def match(self, function):
        return function if "conv2d" in function.calls[0].operator else None

    def complete(self, calls):
        return {call: call for call in calls}

    def found_ns(self, _call):
        return self.price_ns


def asked_of(library: FakeLibrary, traits=CPU) -> SimpleNamespace:
    @contextmanager
    def opened():
        yield SimpleNamespace(libraries=lambda _: SimpleNamespace(open=lambda each: each))

    device = SimpleNamespace(traits=traits, speeds=traits.speeds, require_lanes=lambda _: 2)
    call = SimpleNamespace(open=opened, database=None, device=device)
    call.library_ns = partial(MeasuringCall.library_ns, call)
    return call


def convolutions(layout: str, size: int = 56) -> tvm.IRModule:
    """A convolution of 64 channels with a ReLU, twice."""
    kernel = {"NCHW": "OIHW", "NHWC": "HWIO"}[layout]
    shape = {"NCHW": (1, 64, size, size), "NHWC": (1, size, size, 64)}[layout]
    weight = {"OIHW": (64, 64, 3, 3), "HWIO": (3, 3, 64, 64)}[kernel]
    value = relay.var("data", shape=shape)
    for _ in range(2):
        value = relay.nn.relu(
            relay.nn.conv2d(
                value,
                relay.const(np.ones(weight, "float32")),
                padding=(1, 1),
                channels=64,
                kernel_size=(3, 3),
                data_layout=layout,
                kernel_layout=kernel,
            )
        )
    return tvm.IRModule.from_expr(value)


@pytest.mark.parametrize(
    ("layout", "library_ns", "absent"),
    [
        # 231 million operations take at least 0.5 ms on two lanes, and with channels last 0.9 ms.
        ("NCHW", 500_000, True),
        ("NCHW", 700_000, False),
        ("NHWC", 700_000, True),
        ("NHWC", 1_500_000, False),
    ],
)
def test_kernels_that_cannot_beat_a_call_are_absent(layout, library_ns, absent):
    prepared = prepare(convolutions(layout), {}, "llvm -mcpu=skylake-avx512")
    library = FakeLibrary(library_ns)
    found = absent_functions(prepared, [library], asked_of(library))
    assert len(found) == absent  # both have one kernel
    assert not absent_functions(prepared, [library], asked_of(library, GPU))
    with autotvm.apply_history_best([]):
        assert not absent_functions(prepared, [library], asked_of(library))


@dataclass(frozen=True)
class Network:
    """Fire modules with all kernels, and without those that oneDNN can compute."""

    whole: BuiltModel
    lazy: BuiltModel
    able: tuple[int, ...]
    """Operators that oneDNN computes."""


@pytest.fixture(scope="module")
def network() -> Network:
    prepared = prepare(*few_fires(image_size=64), TARGET)
    whole = replace(build_prepared(prepared), libraries=(ONEDNN,))
    plain = whole.extraction.calls
    functions = describe_calls(plain)
    with LocalCpu().open() as session:
        calls = {n: each for n, each in enumerate(library_calls(functions, ONEDNN)) if each}
        complete = session.libraries().open(ONEDNN).complete(c.descriptor for c in calls.values())
    able = tuple(n for n, each in calls.items() if complete[each.descriptor] is not None)
    absent = {digest_of_call(plain[index]) for index in able}
    lazy = replace(build_prepared(prepared, absent=absent), libraries=(ONEDNN,))
    assert lazy.kernels.staged.absent == absent
    assert lazy.kernels.staged.absent_nodes == set(able)
    return Network(whole, lazy, able)


def outputs_of(module) -> np.ndarray:
    module.run(data=DATA)
    return module.get_output(0).numpy().copy()


def output(model) -> np.ndarray:
    with model.executor() as module:
        return outputs_of(module)


def by_onednn(built: BuiltModel, operators) -> object:
    rows = (LibraryOperators("onednn", tuple(operators)),)
    return replace(sequential_schedule(built.graph), libraries=rows)


@pytest.mark.slow
@has_onednn
def test_a_network_computes_as_ever_without_kernels_that_nobody_calls(network):
    whole, lazy = network.whole.kernels.staged, network.lazy.kernels.staged
    assert lazy.lowered.keys() == whole.lowered.keys() - lazy.absent
    assert len(lazy.lowered) < len(whole.lowered) / 2
    assert lazy.placements == whole.placements
    schedule = by_onednn(network.whole, network.able)
    ours = lower_schedule(network.lazy, schedule, lanes=LANES)
    assert ours.kernels is network.lazy.kernels
    expected = lower_schedule(network.whole, schedule, lanes=LANES)
    np.testing.assert_array_equal(output(ours), output(expected))


@pytest.mark.slow
@has_onednn
@pytest.mark.parametrize("left", [slice(0), slice(1, None)], ids=["all by TVM", "one by TVM"])
def test_a_schedule_that_has_tvm_compute_gets_the_kernels(network, left):
    schedule = by_onednn(network.whole, network.able[left])
    ours = lower_schedule(network.lazy, schedule, lanes=1)
    assert ours.kernels is network.lazy.whole.kernels
    assert ours.kernels.staged.lowered.keys() == network.whole.kernels.staged.lowered.keys()
    assert network.whole.whole is network.whole
    expected = lower_schedule(network.whole, schedule, lanes=1)
    np.testing.assert_array_equal(output(ours), output(expected))


def merge_schedule(network: Network, *, by_library: bool):
    """Sequential order but for one merge of two members without kernels, which come with it."""
    built = network.lazy
    operands = [o.convolution.operand if o.convolution else "" for o in built.graph.operators]
    shared = next(each for each in operands if each and operands.count(each) == 2)
    members = [index for index, operand in enumerate(operands) if operand == shared]
    assert set(members) <= set(network.able)
    stages = []
    for stage in sequential_schedule(built.graph).stages:
        (index,) = stage.operators
        if index == members[0]:
            stages.append(Stage(tuple((each,) for each in members), Strategy.MERGE))
        elif index not in members:
            stages.append(stage)
    others = [index for index in network.able if by_library or index not in members]
    return members, replace(by_onednn(built, others), stages=tuple(stages))


@pytest.mark.slow
@has_onednn
@pytest.mark.parametrize("by_library", [True, False])
def test_a_merge_of_members_without_kernels_runs(network, by_library):
    _, schedule = merge_schedule(network, by_library=by_library)
    ours = lower_schedule(network.lazy, schedule, lanes=1)
    launch = next(each for each in ours.plan.launches if "+" in each.operator)
    assert (launch.call is not None) is by_library
    # The members themselves have no kernels here either way: their merge has.
    assert ours.kernels.staged.absent <= network.lazy.kernels.staged.absent
    expected = lower_schedule(network.whole, schedule, lanes=1)
    np.testing.assert_array_equal(output(ours), output(expected))


@pytest.mark.slow
@has_onednn
def test_an_exported_file_runs_and_stock_tvm_names_what_it_lacks(network, tmp_path):
    path = tmp_path / "net.so"
    model = lower_schedule(network.lazy, by_onednn(network.lazy, network.able), lanes=1)
    model.export_library(path)
    with tvm_ios.load(path) as module:
        np.testing.assert_array_equal(outputs_of(module), output(model))
    with pytest.raises(tvm.TVMError, match="left_to_library_"):
        tvm.runtime.load_module(str(path))["default"](tvm.cpu())


@pytest.mark.slow(1)
@has_onednn
def test_a_network_may_have_no_kernel_at_all(tmp_path):
    prepared = prepare(convolutions("NHWC"), {}, TARGET)
    whole = replace(build_prepared(prepared), libraries=(ONEDNN,))
    absent = set(map(digest_of_call, whole.extraction.calls))
    lazy = replace(build_prepared(prepared, absent=absent), libraries=(ONEDNN,))
    assert not lazy.kernels.staged.lowered
    schedule = by_onednn(lazy, range(len(lazy.graph)))
    ours, expected = (lower_schedule(each, schedule, lanes=1) for each in (lazy, whole))
    ours.export_library(tmp_path / "net.so")
    data = np.random.default_rng(0).uniform(-1, 1, (1, 56, 56, 64)).astype("float32")
    results = []
    for module in (ours.executor(), expected.executor(), tvm_ios.load(tmp_path / "net.so")):
        with module:
            module.run(data=data)
            results.append(module.get_output(0).numpy().copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    partitioned = relay.build(ours.module, TARGET)  # stock TVM compiles all there is
    assert "left_to_library" not in partitioned.get_graph_json()


@pytest.mark.slow
@has_onednn
def test_operators_without_kernels_have_prices_of_the_library_alone(network):
    members, _ = merge_schedule(network, by_library=True)
    merge = Stage(tuple((each,) for each in members), Strategy.MERGE)
    with (
        LocalCpu().open() as session,
        StageKernels(network.lazy, lanes=LANES, session=session) as runner,
        StageKernels(network.whole, lanes=LANES, session=session) as all_kernels,
    ):
        kernels = MeasuredKernels(runner, options=MEASURE)
        assert kernels.identity != MeasuredKernels(all_kernels, options=MEASURE).identity
        assert runner.graphs["onednn"].operators == tuple(
            ours if index not in network.able else theirs
            for index, (ours, theirs) in enumerate(
                zip(
                    runner.graphs["onednn"].operators,
                    all_kernels.graphs["onednn"].operators,
                    strict=True,
                )
            )
        )
        prices = measure_operators(kernels)
        assert not set(prices.by_maker[TVM]) & set(network.able)
        assert set(prices.by_maker["onednn"]) == set(network.able)
        choice = prices.choice()
        assert set(choice.made_by("onednn")) == set(network.able)
        stages = StagePrices(kernels, choice)
        assert stages._merges.fastest_maker(merge) == "onednn"
        assert stages.price(stages.graph, [merge])[0] > 0
    # A choice of all kernels fits no more.
    assert OperatorChoice.of_rows(prices, (), ()) is None
    assert OperatorChoice.of_rows(prices, choice.rows(["onednn"]), ()) is not None
    assert prices.own_ratio == float("inf")


@pytest.mark.slow
@has_onednn
def test_tune_leaves_out_what_cannot_win_and_nothing_where_all_is_wanted(tmp_path, monkeypatch):
    mod = convolutions("NHWC", size=14)
    monkeypatch.setattr(OnednnProcessor, "found_ns", lambda *_: 1)  # nothing can beat that
    monkeypatch.setattr("tvm_ios.cost.kernel_bound.SLACK_NS", 0)

    def tuned(name: str, **build):
        return tvm_ios.tune(
            mod,
            {},
            "llvm -mcpu=core-avx2",
            lanes=1,
            database=tmp_path / f"{name}.sqlite",
            options=TuneOptions(
                measure=MEASURE,
                compare=CompareOptions(rounds=6, min_repeat_ms=0.1, longest_s=0.5),
                build=BuildOptions(libraries=("onednn",), race_forms=False, **build),
            ),
        )

    lazy, whole = tuned("lazy"), tuned("whole", all_kernels=True)
    absent = lazy.kernels.staged.absent_nodes
    assert len(absent) == 2
    assert not whole.kernels.staged.absent
    assert f"{len(absent)} operators have no kernel of TVM's" in lazy.report().as_text()
    data = np.random.default_rng(0).uniform(-1, 1, (1, 14, 14, 64)).astype("float32")
    again = tvm_ios.compile_schedule(mod, {}, lazy.kernels.target, schedule=lazy.schedule, lanes=1)
    assert not again.kernels.staged.absent  # nobody has asked the library
    results = []
    for model in (lazy, whole, again):
        with model.executor() as module:
            module.run(data=data)
            results.append(module.get_output(0).numpy().copy())
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4)
