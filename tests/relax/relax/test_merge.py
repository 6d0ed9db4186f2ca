"""Merge stages of Relax: kernels from notes, what the virtual machine makes of them, and lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_partitioned, lower_schedule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.placement import SliceView
from tvm_ios.relax.build import build
from tvm_ios.relax.extract import extract
from tvm_ios.relax.merge import merge_stage_module
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.relax.stage_ir import read_schedule
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import sequential_schedule

OP = relax.op
KERNELS = {
    "1x1 twice": [((1, 1), 0), ((1, 1), 0)],
    "1x1 and 3x3": [((1, 1), 0), ((3, 3), 1)],
    "1x3 and 3x1": [((1, 3), (0, 1)), ((3, 1), (1, 0))],
    "off the middle": [((2, 2), (0, 0, 1, 1)), ((3, 3), 1), ((1, 1), 0)],
}
EPILOGUES = {
    "nothing": lambda net, made, channels: made,
    "bias and relu": lambda net, made, channels: OP.nn.relu(
        net.emit(OP.add(made, net.constant(1, channels, 1, 1)))
    ),
    "scale and clip": lambda net, made, channels: OP.clip(
        net.emit(OP.multiply(net.constant(channels, 1, 1), made)), 0, 6
    ),
    "numbers": lambda net, made, channels: OP.multiply(
        net.emit(OP.nn.leakyrelu(made, 0.2)), relax.const(0.5, "float32")
    ),
    "silu": lambda net, made, channels: OP.nn.silu(made),
}


def siblings(kernels, epilogue="bias and relu", *, batch=1, result=None, **options):
    """Convolutions of one input, of which a result is made: all of them where omitted."""
    network = Network(batch, 4, 7, 6)

    def body(net: Network) -> relax.Var:
        made = []
        for number, (size, padding) in enumerate(kernels):
            channels = 2 + 2 * number
            weight = net.constant(channels, 4, *size)
            one = net.emit(OP.nn.conv2d(net.x, weight, padding=padding, **options))
            made.append(net.emit(EPILOGUES[epilogue](net, one, channels)))
        return net.emit(relax.Tuple(made) if result is None else result(made))

    return network.build(body), network.value()


def merged_schedule(graph: OperatorGraph) -> InterOpSchedule:
    """Sequential order, but for all convolutions, which are one stage."""
    members = [index for index, each in enumerate(graph.operators) if each.convolution is not None]
    before = range(members[0])
    stages = [Stage(((index,),)) for index in before]
    stages.append(Stage(tuple((index,) for index in members), Strategy.MERGE))
    others = set(range(len(graph))) - set(members) - set(before)
    stages += [Stage(((index,),)) for index in sorted(others)]
    return replace(sequential_schedule(graph), stages=tuple(stages), scheduler="test")


def ran(compiled, value) -> list[np.ndarray]:
    with compiled.executor(options=LaneOptions(oversubscribe=True)) as executor:
        executor.run(x=value)
        return [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]


def checked(mod, value, **options):
    """Merged model: on lanes it has the bits of the virtual machine, near those without merges."""
    model = build_model(mod, None, TARGET, **options)
    compiled = lower_schedule(model, merged_schedule(model.graph), lanes=2)
    relax.analysis.check_well_formed(compiled.module)
    found = ran(compiled, value)
    plain = answers(model.prepared.module, value)
    for got, wanted in zip(found, plain, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    if not options:
        for got, wanted in zip(found, answers(compiled.module, value), strict=True):
            np.testing.assert_array_equal(got, wanted)
    return compiled


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_a_note_is_enough_to_make_the_kernel_anew(epilogue):
    """What is prepared for a merge of twins differs from a member in its channels alone."""
    mod, _ = siblings([((3, 3), 1), ((3, 3), 1)], epilogue)
    extraction = prepare(mod, None, TARGET).extraction
    twins = extract(merge_stage_module(extraction, (0, 1), tvm.target.Target(TARGET)))
    mod, _ = siblings([((3, 3), 1)], epilogue)
    alone = prepare(mod, None, TARGET).extraction
    assert twins.graph.operators[0].kind == alone.graph.operators[0].kind
    assert twins.patterns[0].epilogue == alone.patterns[0].epilogue
    assert twins.graph.operators[0].flops == 3 * alone.graph.operators[0].flops


@pytest.mark.slow
@pytest.mark.parametrize("kernels", KERNELS)
def test_kernels_of_any_size(kernels):
    compiled = checked(*siblings(KERNELS[kernels]))
    assert len(compiled.plan.launches) == 1 + len(KERNELS[kernels])  # outputs are copies


@pytest.mark.slow(1)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(epilogue):
    checked(*siblings(KERNELS["1x1 and 3x3"], epilogue))


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "options", [{"batch": 2}, {"strides": (2, 1)}, {"dilation": (1, 2)}], ids=["batch", "s", "d"]
)
def test_batches_strides_and_dilations(options):
    checked(*siblings(KERNELS["1x1 twice"], **options))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
def test_a_concatenation_of_the_members_is_the_merged_convolution(batch):
    def joined(made):
        return OP.concat(made, axis=1)

    compiled = checked(*siblings(KERNELS["1x1 and 3x3"], batch=batch, result=joined))
    assert [each.operator for each in compiled.plan.launches] == [
        "conv2d_add_relu_0+conv2d_add_relu_1"
    ]
    assert "tvm_ios_stage_1" in {each.name_hint for each in compiled.module.get_global_vars()}


@pytest.mark.slow(1)
def test_slices_between_kernels_are_views():
    network = Network(1, 4, 8, 8)

    def body(net):
        made = [net.conv(net.x, 2, 1), net.conv(net.x, 4, 1)]
        return net.emit(relax.Tuple([net.emit(OP.nn.softmax(each, axis=3)) for each in made]))

    mod = network.build(body)
    compiled = checked(mod, network.value())
    views = [placement.view for placement in compiled.kernels.staged.placements[1:3]]
    assert views == [SliceView(0), SliceView(2 * 64 * 4)]
    assert len(compiled.plan.launches) == 3


@pytest.mark.slow(1)
def test_partitioned_modules_keep_merges_in_script_and_json():
    mod, value = siblings(KERNELS["1x1 and 3x3"])
    model = build_model(mod, None, TARGET)
    schedule = merged_schedule(model.graph)
    partitioned = lower_schedule(model, schedule, lanes=1).module
    for again in (
        tvm.script.from_source(partitioned.script(show_meta=True)),
        tvm.ir.load_json(tvm.ir.save_json(partitioned)),
    ):
        tvm.ir.assert_structural_equal(again, partitioned)
        assert read_schedule(again) == schedule
        compiled = lower_partitioned(again, None, TARGET, lanes=2)
        for got, wanted in zip(ran(compiled, value), answers(partitioned, value), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_stage_functions_of_a_merge():
    mod, _ = siblings(KERNELS["1x1 twice"], result=lambda made: OP.concat(made, axis=1))
    prepared = prepare(mod, None, TARGET)
    schedule = merged_schedule(prepared.extraction.graph)
    after = rewrite(prepared.module, schedule, TARGET)
    merged, handed_on = (after[f"tvm_ios_stage_{number}"] for number in range(len(schedule.stages)))
    assert {name: str(merged.attrs[name]) for name in ("tvm_ios_operators", "tvm_ios_groups")} == {
        "tvm_ios_operators": "conv2d_add_relu_0+conv2d_add_relu_1",
        "tvm_ios_groups": "conv2d_add_relu_0 | conv2d_add_relu_1",
    }
    assert (str(handed_on.attrs["tvm_ios_operators"]), len(handed_on.params)) == ("", 1)
    staged = build(after, TARGET)
    assert staged.members == (("conv2d_add_relu_0", "conv2d_add_relu_1"),)


@pytest.mark.slow
def test_onednn_computes_merged_convolutions():
    mod, value = siblings(KERNELS["1x1 and 3x3"], result=lambda made: OP.concat(made, axis=1))
    compiled = checked(mod, value, libraries=(OnednnLibrary(),))
    assert [each.operator for each in compiled.plan.launches if each.call is not None] == [
        "conv2d_add_relu_0+conv2d_add_relu_1"
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epilogue": lambda net, made, n: OP.nn.relu(made)}, "has epilogue"),
        ({"padding": 0}, "output size|paddings"),
        ({"strides": (2, 2)}, "has strides"),
    ],
    ids=["epilogue", "padding", "strides"],
)
def test_what_may_not_merge_is_refused(change, reason):
    network = Network(1, 4, 6, 6)

    def body(net):
        other = {"padding": 1} | {k: v for k, v in change.items() if k != "epilogue"}
        one = net.emit(OP.nn.conv2d(net.x, net.constant(2, 4, 3, 3), padding=1))
        two = net.emit(OP.nn.conv2d(net.x, net.constant(2, 4, 3, 3), **other))
        if "epilogue" in change:
            two = net.emit(change["epilogue"](net, two, 2))
        return net.emit(relax.Tuple([one, two]))

    model = build_model(network.build(body), None, TARGET)
    with pytest.raises(ScheduleError, match=reason):
        lower_schedule(model, merged_schedule(model.graph), lanes=1)


def test_weights_that_are_inputs_merge_nothing():
    weight = relax.Var("w", relax.TensorType((2, 4, 1, 1), "float32"))
    x = relax.Var("x", relax.TensorType((1, 4, 6, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, weight]):
        with builder.dataflow():
            made = builder.emit_output(OP.nn.conv2d(x, weight))
        builder.emit_func_output(made)
    extraction = prepare(builder.get(), None, TARGET).extraction
    assert extraction.graph.operators[0].convolution is None
