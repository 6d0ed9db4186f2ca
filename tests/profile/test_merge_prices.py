"""What a merge stage does to other operators: as computed, and as the lowered plan has it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relay

from tests.pricing import plain_choice, stage_runner
from tests.small_networks import few_fires
from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.kernel_variant import KernelVariant, with_slices, with_variants
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.merge_prices import could_be_whole, effects_of
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.search.baselines import sequential_schedule

CONVOLUTIONS = "abcd"
POOL = "p"


@dataclass(frozen=True)
class Network:
    """Convolutions of one tensor and a pooling of it; concatenations of those and of each other."""

    batch: int = 1
    channels: tuple[int, ...] = (16, 16, 32, 16)
    joins: tuple[str, ...] = ("abc",)
    """Concatenations, named 0, 1 …: their pieces in order, such as ``"a0p"``."""
    read: str = ""
    """Pieces that a pooling reads as well."""
    returned: str = ""
    """Pieces that are outputs of the network."""

    def relay(self) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
        """The module and its parameters."""
        random = np.random.default_rng(0)
        data = relay.var("data", shape=(self.batch, 8, 6, 6))
        pieces = {POOL: relay.nn.max_pool2d(data, (3, 3), padding=(1, 1))}
        params = {}
        for position, (name, channels) in enumerate(zip(CONVOLUTIONS, self.channels, strict=True)):
            size = 1 + 2 * (position % 2)
            shape = (channels, 8, size, size)
            params[name] = random.uniform(-0.5, 0.5, shape).astype("float32")
            value = relay.nn.conv2d(
                data,
                relay.var(name, shape=shape),
                padding=(size // 2, size // 2),
                kernel_size=(size, size),
                channels=channels,
            )
            pieces[name] = relay.nn.relu(value)
        results = []
        for number, joined in enumerate(self.joins):
            pieces[str(number)] = relay.concatenate([pieces[name] for name in joined], axis=1)
        inner = {name for joined in self.joins for name in joined}
        for name, value in pieces.items():
            if name in self.read or name not in inner:
                results.append(relay.nn.max_pool2d(value, (2, 2)))
            if name in self.returned:
                results.append(value)
        body = relay.Tuple(results)
        free = [var for var in relay.analysis.free_vars(body) if var.name_hint != "data"]
        module = tvm.IRModule.from_expr(relay.Function([data, *free], body))
        return relay.transform.InferType()(module), params


@cache
def built_network(network: Network) -> BuiltModel:
    with tvm.transform.PassContext(opt_level=2):
        return build_model(*network.relay(), "llvm -opt-level=0")


def operators_of(built: BuiltModel, network: Network, names: str) -> tuple[int, ...]:
    """The operators that are these convolutions, known by their weights."""
    _, params = network.relay()
    found = []
    for name in names:
        for index, (call, pattern) in enumerate(
            zip(built.extraction.calls, built.extraction.patterns, strict=True)
        ):
            if pattern is None:
                continue
            weight = call.args[pattern.weight].data.numpy()
            if weight.shape == params[name].shape and np.array_equal(weight, params[name]):
                found.append(index)
    assert len(found) == len(names)
    return tuple(found)


def merge_only(built: BuiltModel, members: tuple[int, ...]) -> InterOpSchedule:
    """Sequential order but for one merge, where its first member was."""
    plain = sequential_schedule(built.graph)
    merged = Stage(tuple((index,) for index in members), Strategy.MERGE)
    stages = []
    for stage in plain.stages:
        if stage.operators[0] == min(members):
            stages.append(merged)
        elif stage.operators[0] not in members:
            stages.append(stage)
    return InterOpSchedule(
        graph_name=plain.graph_name,
        graph_fingerprint=plain.graph_fingerprint,
        operator_names=plain.operator_names,
        stages=tuple(stages),
        scheduler="test",
    )


def outputs_of(compiled, data):
    with compiled.executor(lanes=1) as executor:
        executor.set_input("data", data)
        executor.run()
        return [executor.get_output(i).numpy().copy() for i in range(executor.get_num_outputs())]


def assert_effects_are_those_of_the_plan(network: Network, merged: str) -> tuple[int, int, int]:
    """Operators added, removed and copied, after comparing them with two lowered plans."""
    built = built_network(network)
    members = operators_of(built, network, merged)
    operators = built.graph.operators
    found = effects_of(built.kernels.staged, tuple(members))

    def names(indices):
        return Counter(operators[index].name for index in indices)

    before = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    after = lower_schedule(built, merge_only(built, members), lanes=1)
    expected = Counter(launch.operator for launch in before.plan.launches)
    expected -= names(members)
    assert names(found.removed) <= expected
    assert not names(found.added) & expected
    expected = expected - names(found.removed) + names(found.added)
    expected["+".join(operators[index].name for index in members)] += 1
    expected += Counter(f"{operators[index].name}.slice" for index in found.copied)
    assert Counter(launch.operator for launch in after.plan.launches) == expected

    data = np.random.default_rng(1).uniform(-1, 1, (network.batch, 8, 6, 6)).astype("float32")
    for ours, theirs in zip(outputs_of(after, data), outputs_of(before, data), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    return len(found.added), len(found.removed), len(found.copied)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("network", "merged", "counts"),
    [
        (Network(), "abc", (0, 0, 0)),
        (Network(joins=("abp",)), "ab", (1, 0, 0)),
        (Network(batch=2), "abc", (0, 1, 0)),
        pytest.param(Network(), "acb", (1, 0, 0), marks=pytest.mark.slow),
        pytest.param(Network(), "abcd", (0, 0, 0), marks=pytest.mark.full),
        pytest.param(Network(batch=2), "ab", (0, 0, 2), marks=pytest.mark.slow),
        pytest.param(Network(batch=2, read="b"), "abc", (0, 1, 1), marks=pytest.mark.full),
        pytest.param(
            Network(joins=("ab", "0cp"), read="0"), "ab", (0, 0, 0), marks=pytest.mark.slow
        ),
        pytest.param(
            Network(joins=("ab", "0cp"), read="0"), "bc", (2, 0, 0), marks=pytest.mark.slow
        ),
        pytest.param(Network(joins=("ab",), returned="0"), "ab", (0, 0, 0), marks=pytest.mark.slow),
        pytest.param(Network(channels=(3, 5, 16, 16)), "abc", (0, 1, 0), marks=pytest.mark.slow),
    ],
)
def test_known_networks(network, merged, counts):
    assert assert_effects_are_those_of_the_plan(network, merged) == counts


def kernel_ns(name: str) -> int:
    """A price for every kernel, by its name."""
    return 5000 if "conv2d" in name else 1000


class CountedRunner(StageKernels):
    """Prepares stages as ever, but their time is what is launched in them."""

    def prepare(self, graph, stage):
        made = super().prepare(graph, stage)
        cost_ns = sum(kernel_ns(name) for name in made.operators)
        return SimpleNamespace(time_ns=lambda number: number * cost_ns)


@pytest.mark.parametrize(
    ("network", "merged"),
    [
        (Network(joins=("abp",)), "ab"),
        pytest.param(Network(batch=2), "abc", marks=pytest.mark.slow),
        pytest.param(Network(), "abc", marks=pytest.mark.slow),
        pytest.param(Network(batch=2, read="b"), "abc", marks=pytest.mark.full),
        pytest.param(Network(batch=2), "ab", marks=pytest.mark.slow),
        pytest.param(Network(joins=("ab", "0cp"), read="0"), "bc", marks=pytest.mark.slow),
        pytest.param(Network(joins=("ap",), returned="b"), "ab", marks=pytest.mark.slow),
        pytest.param(Network(channels=(3, 5, 16, 16)), "abc", marks=pytest.mark.slow),
        pytest.param(Network(channels=(3, 5, 16, 16)), "ab", marks=pytest.mark.slow),
    ],
)
def test_prices_add_up_to_what_is_launched(network, merged):
    built = built_network(network)
    schedule = merge_only(built, operators_of(built, network, merged))
    mode = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
    options = MeasureOptions(repeat=1, max_repeat=1, min_repeat_ms=0.001, mode=mode)
    with stage_runner(built, CountedRunner, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=options)
        prices = StagePrices(kernels, plain_choice(kernels.graph))
        costs = prices.price(prices.graph, schedule.stages)
        floors = prices.floors(prices.graph, schedule.stages, costs)
    launched = lower_schedule(built, schedule, lanes=1).plan.launches
    total_ns = sum(kernel_ns(launch.kernel) for launch in launched)
    assert 0 <= sum(costs) - total_ns < len(costs)  # a stage of views has the price 1
    assert all(floor <= cost for floor, cost in zip(floors, costs, strict=True))


@st.composite
def networks(draw):
    joins = []
    for number in range(draw(st.integers(1, 3))):
        pieces = [*CONVOLUTIONS, POOL, *map(str, range(number))]
        joined = draw(st.lists(st.sampled_from(pieces), min_size=2, max_size=4, unique=True))
        joins.append("".join(joined))
    some = st.lists(st.sampled_from([*CONVOLUTIONS, "0"]), max_size=2, unique=True).map("".join)
    network = Network(
        batch=draw(st.integers(1, 2)),
        channels=tuple(draw(st.sampled_from([4, 16, 32])) for _ in CONVOLUTIONS),
        joins=tuple(joins),
        read=draw(some),
        returned=draw(some),
    )
    members = draw(st.permutations(CONVOLUTIONS))[: draw(st.integers(2, 4))]
    # Half of the time what somebody joins, so that there are whole ones.
    joined = "".join(name for name in draw(st.sampled_from(joins)) if name in CONVOLUTIONS)
    return network, joined if len(joined) > 1 and draw(st.booleans()) else "".join(members)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [3, pytest.param(6, marks=pytest.mark.full)])
def test_the_plan_launches_what_was_computed(examples):
    @settings(max_examples=examples)
    @given(drawn=networks())
    def launches(drawn):
        assert_effects_are_those_of_the_plan(*drawn)

    launches()


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.full)])
def test_merged_fire_modules_have_no_concatenation(batch):
    with tvm.transform.PassContext(opt_level=2):
        built = build_model(*few_fires(batch_size=batch), "llvm -opt-level=0")
    fires = [joined for joined in built.extraction.joins if joined]
    assert len(fires) == 2  # the other ends in an addition
    schedule = sequential_schedule(built.graph)
    stages = []
    for stage in schedule.stages:
        (index,) = stage.operators
        fire = next((joined for joined in fires if index in joined), (index,))
        if index == fire[0]:
            stages.append(Stage(tuple((member,) for member in fire), _strategy(fire)))
    before = lower_schedule(built, schedule, lanes=1)
    after = lower_schedule(built, replace(schedule, stages=tuple(stages)), lanes=1)
    names = [launch.operator for launch in after.plan.launches]
    assert sum("+" in name for name in names) == 2
    gone = {launch.operator for launch in before.plan.launches} - set(names)
    assert len([name for name in gone if "conv2d" in name]) == 4
    joins = {built.graph.operators[built.extraction.joins.index(fire)].name for fire in fires}
    # At batch one these were views before.
    assert {name for name in gone if "conv2d" not in name} == (set() if batch == 1 else joins)
    assert not joins & set(names)
    data = np.random.default_rng(1).uniform(-1, 1, (batch, 3, 32, 32)).astype("float32")
    for ours, theirs in zip(outputs_of(after, data), outputs_of(before, data), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def _strategy(members):
    return Strategy.MERGE if len(members) > 1 else Strategy.CONCURRENT


def test_what_could_be_a_merged_convolution():
    network = Network(joins=("ab", "cp", "dc"))
    built = built_network(network)
    first, last = (operators_of(built, network, names) for names in ("ab", "dc"))
    found = could_be_whole(built.extraction, first[0])
    assert {built.extraction.joins[index] for index in found} == {first, last}
    assert could_be_whole(built.extraction, found[0]) == ()


def test_the_slices_are_in_the_name_of_a_merge():
    plain = built_network(Network()).graph
    graph = with_variants(
        plain, [KernelVariant(workload=each.workload) for each in plain.operators]
    )
    marked = with_slices(graph, {1})
    changed = [variant.copied for variant in marked.variants]
    assert changed == [index == 1 for index in range(len(graph))]
    assert len({o.workload for o in (*graph.operators, *marked.operators)}) > len(
        {o.workload for o in graph.operators}
    )
