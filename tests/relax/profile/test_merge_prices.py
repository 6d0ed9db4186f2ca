"""Prices of merge stages in Relax, by a clock that counts launches, and effects around them."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from tvm import relax

from tests.pricing import MEASURE, plain_choice, stage_runner
from tests.relax.networks import TARGET, Network
from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.merge_prices import could_be_whole, effects_of
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import make_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions

CASES = {
    "whole": ("ab", False, 1, (0, 0, 0)),
    "with others": ("abp", False, 1, (1, 0, 0)),
    "whole, batch 2": ("ab", False, 2, (0, 1, 0)),
    "copied, batch 2": ("abp", False, 2, (0, 0, 2)),
    "read, batch 2": ("ab", True, 2, (0, 1, 1)),
}


def cell(joined: str, read: bool, batch: int) -> BuiltModel:
    """Two convolutions and a pool of one input; some are joined, and the first is read again."""
    network = Network(batch, 4, 8, 8)

    def body(net: Network) -> relax.Var:
        pieces = {"a": net.conv(net.x, 4, 1), "b": net.conv(net.x, 8, 3)}
        pieces["p"] = net.emit(relax.op.nn.max_pool2d(net.x, (3, 3), padding=1))
        whole = net.emit(relax.op.concat([pieces[name] for name in joined], axis=1))
        outputs = [net.conv(whole, 4, 3)]
        if read:
            outputs.append(net.emit(relax.op.nn.softmax(pieces["a"], axis=3)))
        if "p" not in joined:
            outputs.append(net.conv(pieces["p"], 2, 1))
        return net.emit(relax.Tuple(outputs))

    return build_model(network.build(body), None, TARGET)


def members_of(built: BuiltModel) -> tuple[int, ...]:
    """Convolutions of the first operand, which is the input in the layout of its images."""
    convolutions = [each.convolution for each in built.graph.operators]
    operand = next(each.operand for each in convolutions if each is not None)
    return tuple(
        index for index, each in enumerate(convolutions) if each and each.operand == operand
    )


def merged(built: BuiltModel) -> InterOpSchedule:
    """Sequential order, in which the convolutions of the first operand are one stage."""
    members = members_of(built)
    others = [index for index in range(len(built.graph)) if index not in members]
    merge = Stage(tuple((index,) for index in members), Strategy.MERGE)
    first = [Stage(((index,),)) for index in others if index < members[0]]
    later = [Stage(((index,),)) for index in others if index > members[0]]
    return make_schedule(built.graph, (*first, merge, *later), "test")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_effects_are_what_two_plans_differ_in(case):
    joined, read, batch, counts = CASES[case]
    built = cell(joined, read, batch)
    operators, members = built.graph.operators, members_of(built)
    found = effects_of(built.kernels.staged, members)
    assert (len(found.added), len(found.removed), len(found.copied)) == counts
    in_order = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    wanted = Counter(launch.operator for launch in in_order.plan.launches)
    wanted -= Counter(operators[index].name for index in (*members, *found.removed))
    wanted += Counter(operators[index].name for index in found.added)
    wanted += Counter(f"{operators[index].name}.slice" for index in found.copied)
    wanted["+".join(operators[index].name for index in members)] += 1
    launched = lower_schedule(built, merged(built), lanes=1).plan.launches
    assert Counter(launch.operator for launch in launched) == wanted
    wholes = could_be_whole(built.extraction, members[0])
    assert [operators[index].kind for index in wholes] == ["concatenate"] * ("p" not in joined)


def kernel_ns(name: str) -> int:
    """A price for every kernel, by its name."""
    return 5000 if "conv2d" in name else 1000


class CountedRunner(StageKernels):
    """Prepares stages as ever, but their time is what is launched in them."""

    def prepare(self, graph, stage):
        made = super().prepare(graph, stage)
        cost_ns = sum(kernel_ns(name) for name in made.operators)
        return SimpleNamespace(time_ns=lambda number: number * cost_ns)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_prices_add_up_to_what_is_launched(case):
    built = cell(*CASES[case][:3])
    schedule = merged(built)
    with stage_runner(built, CountedRunner, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        prices = StagePrices(kernels, plain_choice(kernels.graph))
        costs = prices.price(prices.graph, schedule.stages)
        found = search_ios(prices.graph, prices, SearchOptions.of(strategies="merge"))
    launched = lower_schedule(built, schedule, lanes=1).plan.launches
    total_ns = sum(kernel_ns(launch.kernel) for launch in launched)
    assert 0 <= sum(costs) - total_ns < len(costs)  # a stage of views has the price 1
    # One launch of a convolution less: the search merges, and copies nothing for that.
    assert any(stage.is_merge for stage in found.schedule.stages)


@pytest.mark.slow(1)
def test_libraries_compute_merged_convolutions_while_they_are_priced():
    network = Network(1, 4, 8, 8)
    mod = network.build(
        lambda net: net.emit(relax.op.concat([net.conv(net.x, n, 3) for n in (4, 8)], axis=1))
    )
    built = build_model(mod, None, TARGET, libraries=(OnednnLibrary(),))
    with stage_runner(built, lanes=1) as runner:
        stage = next(each for each in merged(built).stages if each.is_merge)
        assert runner.makers_of(stage.operators) == ["tvm", "onednn"]
        for maker in ("tvm", "onednn"):
            prepared = runner.prepare(runner.graphs[maker], stage)
            assert sum("conv2d" in name for name in prepared.operators) == 1
            assert prepared.time_ns(100) > 0
