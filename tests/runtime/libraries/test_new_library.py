"""A library that nobody has heard of computes operators on the CPU: its protocol is all it takes.

It is registered in the one list there is, and from then on priced, chosen, planned, exported,
loaded and run like any other; no other code knows of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.pricing import stage_runner
from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_partitioned, lower_schedule
from tvm_ios.core.fused_function import FusedFunction, TensorType
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.errors import CostError, ExecutionError, PlanError, ScheduleError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.image_reader import read_image
from tvm_ios.plan.library_call import LibraryName
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.profile import build_choice, way_choice
from tvm_ios.profile.build_choice import choose_build, with_libraries
from tvm_ios.profile.find_schedules import find_schedules
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.libraries import known
from tvm_ios.runtime.libraries.processor import ThisProcessor
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.support.c_compiler import compile_object, compile_shared
from tvm_ios.support.stored_value import StoredValue

SOURCE = r"""
#include <math.h>
#include <stdint.h>

typedef struct {
  float* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

typedef struct {
  int64_t size;
  int32_t kind, fails, failed, runs;
} Call;

int32_t fake_library_run(int64_t* arguments, int32_t* codes, int32_t count, int64_t* value,
                         int32_t* code, void* resource) {
  Call* call = resource;
  const float* x = ((Tensor*)arguments[0])->data;
  float* y = ((Tensor*)arguments[1])->data;
  if (call->fails) {
    call->failed = 7;
    return -1;
  }
  for (int64_t i = 0; i < call->size; ++i) {
    y[i] = call->kind ? fabsf(x[i]) : (x[i] > 0.0f ? x[i] : 0.0f);
  }
  ++call->runs;
  return 0;
}
"""
KINDS = ("nn.relu", "abs", "exp")
NOT_HERE = "exp"
"""Looks like something the library computes until it is on a device."""
PRICES_NS = {"fake": {"nn.relu": 100, "abs": 5000}, "second": {"nn.relu": 200, "abs": 300}}
KERNEL_NS = 1000
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=1, max_repeat=1, min_repeat_ms=0.001, mode=CALM)


class NativeCall(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("kind", "fails", "failed", "runs")),
    ]


@dataclass(frozen=True)
class FakeCall:
    kind: str
    shape: tuple[int, ...]
    tile: int = 0
    """Found out on the device."""

    def fits(self, inputs: list[TensorType], outputs: list[TensorType]) -> bool:
        return [*inputs, *outputs] == [TensorType(self.shape, "float32")] * 2

    def to_data(self) -> dict[str, Any]:
        return asdict(self) | {"shape": list(self.shape)}

    def as_text(self) -> str:
        return f"{self.kind} of {self.shape}"


@dataclass(frozen=True)
class Prepared:
    native: NativeCall
    function: int

    @property
    def resource(self) -> int:
        return ctypes.addressof(self.native)

    def constants_changed(self) -> None:
        """Nothing is made of them."""

    def failure(self, where: str) -> ExecutionError | None:
        failed, self.native.failed = self.native.failed, 0
        return ExecutionError(f"{where}: status {failed} of Fake 1.2") if failed else None


@dataclass
class Seen:
    """What became of the library."""

    prepared: list[Prepared] = field(default_factory=list)
    brought: list[bool] = field(default_factory=list)
    """By lane, whether the model brought the code along."""
    completed: int = 0
    open: int = 0
    fails: int = 0
    """1 lets every call fail that is prepared from now on."""


@dataclass(frozen=True)
class FakeLane:
    seen: Seen
    function: int

    def prepare(self, call: FakeCall, operator: str) -> Prepared:
        assert call.tile == 4, f"{operator} is not complete"
        size, kind = int(np.prod(call.shape)), KINDS.index(call.kind)
        native = NativeCall(size=size, kind=kind, fails=self.seen.fails)
        self.seen.prepared.append(Prepared(native, self.function))
        return self.seen.prepared[-1]

    def close(self) -> None:
        self.seen.open -= 1


@dataclass(frozen=True)
class OpenFake:
    library: FakeLibrary

    def complete(self, calls):
        self.library.seen.completed += 1
        return {call: None if call.kind == NOT_HERE else replace(call, tile=4) for call in calls}

    def found_ns(self, call: FakeCall) -> None:
        """Nothing: no call is timed."""

    def price_name(self, call: FakeCall) -> str:
        return f"1.2-tile{call.tile}"

    def on_lane(self, lane: LibraryLane) -> FakeLane:
        brings = lane.code is not None and hasattr(lane.code, "fake_library_run")
        code = lane.code if brings else ctypes.CDLL(str(compile_shared(self.library.source)))
        self.library.seen.brought.append(brings)
        self.library.seen.open += 1
        return FakeLane(self.library.seen, address_of(code, "fake_library_run"))

    def as_text(self) -> str:
        return "Fake 1.2"

    def close(self) -> None:
        self.library.seen.open -= 1


@dataclass(frozen=True)
class FakeLibrary:
    source: Path
    seen: Seen
    name: ClassVar[LibraryName] = LibraryName("fake", "Fake")
    target_kind: ClassVar[str] = "llvm"
    options_text: ClassVar[str] = "with one tile"
    image_layout: ClassVar[str | None] = None

    def identity(self) -> str:
        return f"{self.name.key}-1.2"

    def speeds_up(self, _dtype: str) -> bool:
        return False

    def files(self) -> tuple[Path, ...]:
        return (self.source,)

    def match(self, function: FusedFunction) -> FakeCall | None:
        if len(function.calls) != 1 or function.calls[0].operator not in KINDS:
            return None
        return FakeCall(function.calls[0].operator, function.parameters[0].shape)

    def read_call(self, data: StoredValue) -> FakeCall:
        return FakeCall(
            data.field("kind").text(), data.field("shape").wholes(), data.field("tile").whole()
        )

    def program(self, calls):
        del calls

    def native_object(self) -> Path:
        return compile_object(self.source)

    def require(self, _device: Any = None) -> FakeLibrary:
        return self  # it is always there

    def open(self, device: Any, store: Any) -> OpenFake:
        assert isinstance(device, ThisProcessor)
        self.seen.open += 1
        return OpenFake(self)


class SecondLibrary(FakeLibrary):
    name: ClassVar[LibraryName] = LibraryName("second", "Second")


class PricedByHand(StageKernels):
    """Prepares and runs stages as ever, but what they cost is made up."""

    def prepare(self, graph, stage):
        variants = graph.variants
        plain = [self.built.extraction.calls[index].op for index in stage.operators]
        cost_ns = 0
        for index, function in zip(stage.operators, plain, strict=True):
            maker, call = variants[index].maker, variants[index].call
            assert call == ("" if maker == TVM else "1.2-tile4")
            cost_ns += KERNEL_NS if maker == TVM else PRICES_NS[maker][function.body.op.name]
        made = super().prepare(graph, stage)

        def time_ns(number):
            assert made.time_ns(1) >= 0
            return number * cost_ns

        return SimpleNamespace(time_ns=time_ns)


def priced(runner: StageKernels) -> StagePrices:
    """Prices with the fastest maker of each operator."""
    kernels = MeasuredKernels(runner, options=MEASURE)
    return StagePrices(kernels, measure_operators(kernels).choice())


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    source = tmp_path / "fake_library.c"
    source.write_text(SOURCE)
    made = FakeLibrary(source, Seen())
    monkeypatch.setattr(known, "LIBRARIES", (*known.LIBRARIES, made))
    return made


@pytest.fixture(scope="module")
def plain() -> BuiltModel:
    data = relay.var("data", shape=(1, 4, 6, 6))
    pieces = [
        relay.nn.max_pool2d(make(data), (3, 3)) for make in (relay.nn.relu, relay.abs, relay.exp)
    ]
    module = tvm.IRModule.from_expr(relay.Function([data], relay.concatenate(pieces, axis=1)))
    return build_model(relay.transform.InferType()(module), {}, "llvm", sink=False)


@pytest.fixture
def built(plain: BuiltModel, library: FakeLibrary) -> BuiltModel:
    return replace(plain, libraries=(library,))


@pytest.fixture
def schedule(built: BuiltModel) -> Iterator[InterOpSchedule]:
    with stage_runner(built, PricedByHand, lanes=1) as runner:
        prices = priced(runner)
        assert "1 of the 2 operators that Fake 1.2 with one tile can compute" in prices.notes[-1]
        chosen = prices.annotate(greedy_schedule(prices.graph))
        relu = operator(built, "nn.relu")
        assert prices.alone_ns[relu] == PRICES_NS["fake"]["nn.relu"]
        prices.price(prices.graph, chosen.stages)  # stages mix both kinds of kernels
    yield chosen
    assert all(prepared.native.failed == 0 for prepared in built.libraries[0].seen.prepared)


def operator(built: BuiltModel, name: str) -> int:
    bodies = [call.op.body for call in built.extraction.calls]
    return next(i for i, body in enumerate(bodies) if body.op.name == name)


DATA = np.random.default_rng(0).uniform(-1, 1, (1, 4, 6, 6)).astype("float32")


def run(module) -> bytes:
    module.run(data=DATA)
    return module.get_output(0).numpy().tobytes()


def expected(plain: BuiltModel) -> bytes:
    with lower_schedule(plain, greedy_schedule(plain.graph), lanes=1).executor() as module:
        return run(module)


def by(plan: ExecutionPlan) -> list[str]:
    return [launch.call.descriptor.kind for launch in plan.launches if launch.call is not None]


def test_prices_choose_it_operator_by_operator(built, schedule, library):
    relu = operator(built, "nn.relu")
    assert schedule.libraries == (LibraryOperators("fake", (relu,)),)
    assert InterOpSchedule.from_json(schedule.to_json()) == schedule
    assert any(prepared.native.runs for prepared in library.seen.prepared)
    assert library.seen.open == 0


def test_of_two_libraries_each_computes_what_it_is_faster_at(plain, library, monkeypatch):
    second = SecondLibrary(library.source, Seen())
    monkeypatch.setattr(known, "LIBRARIES", (library, second))
    built = replace(plain, libraries=(library, second))
    relu, absolute = (operator(built, name) for name in ("nn.relu", "abs"))
    with stage_runner(built, PricedByHand, lanes=1) as runner:
        prices = priced(runner)
        chosen = prices.annotate(greedy_schedule(prices.graph))
        both = [Stage(((relu,), (absolute,)))]
        assert prices.price(prices.graph, both) == [400]
        unsplit = replace(prices.choice, unsplit=tuple(range(len(prices.graph))))
        prices = StagePrices(prices.kernels, unsplit)  # who computes it stays
        assert prices.price(prices.graph, both) == [400]
    assert chosen.by_library("fake") == (relu,)
    assert chosen.by_library("second") == (absolute,)
    model = lower_schedule(built, chosen, lanes=1)
    who = {a.call.descriptor.kind: a.call.library.title for a in model.plan.launches if a.call}
    assert who == {"nn.relu": "Fake", "abs": "Second"}
    with model.executor() as module:
        assert run(module) == expected(plain)


def test_times_in_the_network_choose_among_kernels_and_libraries(plain, library, monkeypatch):
    second = SecondLibrary(library.source, Seen())
    monkeypatch.setattr(known, "LIBRARIES", (library, second))
    built = replace(plain, libraries=(library, second))
    relu, absolute = (operator(built, name) for name in ("nn.relu", "abs"))
    least_ns = {"fake": {relu: 5, absolute: 30}, "second": {relu: 30, absolute: 5}}
    computed = {relu: set(), absolute: set()}

    @contextmanager
    def executors_of(models, _session):
        yield {name: SimpleNamespace(trace=partial(trace, model)) for name, model in models.items()}

    def trace(model, _runs):
        """What each launch takes by who computes it: 20 by TVM's kernel."""
        begin = TraceEvent(operator="", stage=0, group=0, lane=0, start_ns=0, end_ns=20)
        for launch in model.plan.launches:
            if launch.operator_index in computed:
                library = launch.call and launch.call.library.key
                computed[launch.operator_index].add(library)
        return [
            replace(
                begin,
                operator=launch.operator,
                end_ns=least_ns[launch.call.library.key][launch.operator_index],
            )
            if launch.call
            else replace(begin, operator=launch.operator)
            for launch in model.plan.launches
        ]

    monkeypatch.setattr(way_choice, "executors_of", executors_of)
    with stage_runner(built, PricedByHand, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        ways = way_choice.ways_in_network(runner, measure_operators(kernels))
        chosen = StagePrices(kernels, ways).annotate(greedy_schedule(kernels.graph))
    makers = {index: maker for index, maker in enumerate(ways.makers) if maker != TVM}
    assert makers == {relu: "fake", absolute: "second"}
    # Prices of 1000, 100 and 200; 1000, 5000 and 300: what is far off is not run in the network.
    assert computed == {relu: {"fake", "second"}, absolute: {None, "second"}}
    assert (chosen.by_library("fake"), chosen.by_library("second")) == ((relu,), (absolute,))
    assert chosen.operator_ns[absolute] == PRICES_NS["second"]["abs"]


def test_builds_race_with_the_calls_that_prices_choose(built, plain, tmp_path, monkeypatch):
    raced = {}

    def race(models, **_options):
        raced.update(models)
        row = CompareRound(run_ns=(1.0,) * len(models), ping_pong_ns=0.0, slow=False)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    monkeypatch.setattr(build_choice, "StageKernels", PricedByHand)
    builds = {"without": plain, "with": built}
    call = replace(MeasuringCall.here(lanes=1, database=tmp_path / "p.sqlite"), measure=MEASURE)
    choice = choose_build(builds, call)
    assert choice.kept == "without"  # a tie
    calls = {text: by(model.plan) for text, model in raced.items()}
    assert calls == {"without, sequential, lanes: 1": [], "with, sequential, lanes: 1": ["nn.relu"]}
    with raced["with, sequential, lanes: 1"].executor() as module:
        assert run(module) == expected(plain)


def test_kernels_that_lost_alone_race_as_a_network(built, plain, library):
    with stage_runner(built, PricedByHand, lanes=1) as runner:
        prices = priced(runner)
        assert f" with {library.identity()} with " in prices.kernels.identity
        found = find_schedules(prices, {}).without_repetitions()
    own = found.pop(Contestant.OWN_KERNELS.value)
    assert {chosen.by_library("fake") for chosen in found.values()} == {
        (operator(built, "nn.relu"),)
    }
    model = lower_schedule(built, own, lanes=1)
    assert by(model.plan) == []
    with model.executor() as module:
        assert run(module) == expected(plain)


def test_kernels_that_are_far_slower_alone_race_no_more(built, library, monkeypatch):
    with stage_runner(built, PricedByHand, lanes=1) as runner:
        prices = priced(runner)
        usual = prices.choice.prices.own_ratio
        assert usual > 1
        for most, races in ((1.01 * usual, True), (0.99 * usual, False)):
            monkeypatch.setattr("tvm_ios.profile.find_schedules.MOST_OWN", most)
            assert (Contestant.OWN_KERNELS.value in find_schedules(prices, {}).schedules) is races


def test_what_was_decided_with_calls_holds_with_them_only(built, library, monkeypatch):
    assert with_libraries("padded", ()) == "padded"
    before = with_libraries("padded", built.libraries)
    assert before != "padded"
    monkeypatch.setattr(FakeLibrary, "identity", lambda _: "fake-1.3")
    assert with_libraries("padded", built.libraries) not in (before, "padded")


@pytest.mark.parametrize("lanes", [1, 2])
def test_what_it_computes_is_equal_and_travels_along(
    built, plain, schedule, library, lanes, tmp_path
):
    model = lower_schedule(built, schedule, lanes=lanes)
    assert by(model.plan) == ["nn.relu"]
    assert model.plan.as_text().count("by Fake") == 1
    assert read_image(image_bytes(model.plan), known.read_call) == model.plan
    library.seen.prepared.clear()
    with model.executor(lanes=1) as module:
        assert run(module) == expected(plain)
        assert "relu" in " ".join(event.operator for event in module.trace())
    assert [prepared.native.runs > 0 for prepared in library.seen.prepared] == [True]
    assert library.seen.open == 0

    model.export_library(tmp_path / "model.so")
    library.seen.prepared.clear()
    with tvm_ios.load(tmp_path / "model.so", lanes=1) as module:
        assert library.seen.brought[-1]
        assert run(module) == expected(plain)
    assert library.seen.prepared[0].native.runs == 1
    partitioned = lower_partitioned(model.module, None, "llvm", lanes=1, libraries=[library])
    assert by(partitioned.plan) == ["nn.relu"]


def test_without_a_choice_it_computes_all_that_it_can(built, plain, library):
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=1)
    assert sorted(by(model.plan)) == sorted(KINDS)
    with model.executor() as module:
        # On the device one of them turned out to be none of its calls.
        assert sorted(by(module.plan)) == ["abs", "nn.relu"]
        assert run(module) == expected(plain)
    nothing = replace(greedy_schedule(built.graph), libraries=())
    assert by(lower_schedule(built, nothing, lanes=1).plan) == []


def test_a_call_that_fails_says_why(built, plain, library):
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=1)
    with model.executor() as module:
        library.seen.prepared[0].native.fails = 1
        with pytest.raises(ExecutionError, match=r"operator '\w+' \(by Fake\): status 7 of Fake"):
            module.run(data=DATA)
        library.seen.prepared[0].native.fails = 0
        assert run(module) == expected(plain)


def test_a_call_that_fails_while_it_is_priced_says_why(built, library):
    with stage_runner(built, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        library.seen.fails = 1
        with pytest.raises(CostError, match=r"operator '\w+' .*priced: status 7 of Fake 1.2"):
            measure_operators(kernels)
        for prepared in library.seen.prepared:
            prepared.native.failed = 0


def test_a_plan_with_tensors_of_another_shape_is_refused(built):
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=1)
    launches = [
        launch
        if launch.call is None
        else replace(
            launch,
            call=replace(launch.call, descriptor=replace(launch.call.descriptor, shape=(3,))),
        )
        for launch in model.plan.launches
    ]
    broken = replace(model, plan=replace(model.plan, launches=tuple(launches)))
    with pytest.raises(PlanError, match=r"rule 6: .* call of Fake, \S+ of \(3,\)"):
        broken.export_library("nowhere.so")


def test_who_is_unknown_or_for_another_target_is_refused(built, schedule):
    stranger = replace(schedule, libraries=(LibraryOperators("stranger", (0,)),))
    with pytest.raises(ScheduleError, match="has stranger compute 1 operators.* does not know"):
        lower_schedule(built, stranger, lanes=1)


def test_a_plan_for_another_kind_of_device_is_refused(plain, library, monkeypatch):
    built = replace(plain, libraries=(library,))
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=1)
    monkeypatch.setattr(FakeLibrary, "target_kind", "cuda")
    with pytest.raises(ExecutionError, match="Fake compute operators, which is for cuda targets"):
        model.executor()
    monkeypatch.setattr(known, "LIBRARIES", ())
    with pytest.raises(ExecutionError, match="Fake .*which this tvm-ios does not know"):
        model.executor()
