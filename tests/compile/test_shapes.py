"""One model in several shapes: the bits of a model for each, with weights stored once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_ios
from tvm_ios.compile.shapes import CompiledShapes
from tvm_ios.errors import ExecutionError, ModelError, OptionError
from tvm_ios.models import nasnet_small
from tvm_ios.models.activation import Activation
from tvm_ios.models.transformer import TransformerBuilder
from tvm_ios.plan.plan import BufferKind

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what runs a few times

pytestmark = pytest.mark.slow(5)

WORDS, FEATURES = 4000, 32


def small_bert(sequence):
    net = TransformerBuilder(batch_size=1, sequence=sequence, seed=0)
    value = net.normalise("norm", net.embed("embeddings", WORDS, FEATURES))
    query, key, read = (net.dense(label, value, FEATURES) for label in ("query", "key", "value"))
    mixed = net.attend("attention", query, key, read, 2)
    wide = net.dense("wide", net.add("sum", mixed, value), 64, activation=Activation.GELU)
    return net.finish("output", net.dense("narrow", wide, FEATURES))


def compiled(network):
    return tvm_ios.compile_schedule(*network, TARGET, lanes=2)


@pytest.fixture(scope="module")
def images():
    return CompiledShapes(
        models={
            f"data:[1,3,{2 * size},{2 * size}]": compiled(
                nasnet_small(num_cells=1, filters=4, size=size)
            )
            for size in (8, 12)
        }
    )


@pytest.fixture(scope="module")
def tokens():
    return CompiledShapes(models={f"tokens:[1,{n}]": compiled(small_bert(n)) for n in (8, 20)})


def inputs_of(model, seed):
    """Values for a model's only input."""
    (entry,) = (each for each in model.plan.inputs if each.name in ("data", "tokens"))
    tensor = model.plan.tensors[entry.tensor]
    values = np.random.default_rng(seed).standard_normal(tensor.shape) * 100
    return {entry.name: abs(values).astype(tensor.dtype)}


def output_alone(model, inputs):
    with model.executor() as executor:
        executor.run(**inputs)
        return executor.get_output(0).numpy()


@pytest.mark.parametrize("which", ["images", "tokens"])
def test_each_shape_computes_the_bits_of_its_own_file(which, request, tmp_path):
    shapes = request.getfixturevalue(which)
    path = tmp_path / "shapes.so"
    shapes.export_library(path)
    small, large = shapes.models.values()
    with tvm_ios.load(path) as loaded, shapes.executor() as here:
        for turn, model in enumerate((large, small, small, large)):
            inputs = inputs_of(model, turn)
            wanted = output_alone(model, inputs)
            for executor in (loaded, here):
                executor.run(**inputs)
                assert executor.shape.name == list(shapes.models)[turn in (0, 3)]
                assert np.array_equal(executor.get_output(0).numpy(), wanted)
                assert executor.time_ns(3) > 0
                launched = {event.operator for event in executor.trace()}
                assert launched == {launch.operator for launch in model.plan.launches}


def test_weights_and_memory_are_there_once(tokens, tmp_path):
    sizes = []
    for number, each in enumerate((tokens, *tokens.models.values())):
        path = tmp_path / f"{number}.so"
        each.export_library(path)
        sizes.append(path.stat().st_size)
    table_bytes = 4 * WORDS * FEATURES
    assert sizes[0] < sizes[1] + sizes[2] - 0.9 * table_bytes
    plans = [model.plan for model in tokens.models.values()]
    assert tokens.plan.arena_bytes == max(plan.arena_bytes for plan in plans)
    tables = [
        tensor
        for tensor in (tokens.plan.tensors[each.tensor] for each in tokens.plan.inputs)
        if math.prod(tensor.shape) == WORDS * FEATURES
    ]
    assert len(tables) == 1
    assert tokens.plan.buffers[tables[0].buffer].kind is BufferKind.INPUT


def test_inputs_choose_the_shape_and_an_unknown_one_is_one_line(images):
    with images.executor() as executor:
        small, large = (np.ones((1, 3, size, size), "float32") for size in (16, 24))
        assert executor.get_input_info()[0]["data"] == (1, 3, 16, 16)
        executor.set_input("data", large)
        assert executor.get_input_info()[0]["data"] == (1, 3, 24, 24)
        assert executor.get_output(0).shape[0] == executor.get_num_outputs() == 1
        executor.set_input(executor.get_input_index("data"), small)
        assert executor.get_input("data").shape == (1, 3, 16, 16)
        executor.set_input_zero_copy(data=tvm.nd.array(large))
        assert executor.shape.shapes == ((1, 3, 24, 24),)
        executor.run(data=small.tolist())
        there = r"it has data:\[1,3,16,16\] or data:\[1,3,24,24\]"
        with pytest.raises(ExecutionError, match=rf"fits data:\[1,3,9,9\]; {there}"):
            executor.run(data=np.ones((1, 3, 9, 9), "float32"))
        with pytest.raises(ExecutionError, match="no input 'image'; the inputs are 'data'"):
            executor.run(image=small)
        with pytest.raises(ExecutionError, match=f"no shape .* fits image.*{there}"):
            executor.choose({"image": (1, 3, 16, 16)})


def scaled(rows):
    x, scale = relay.var("x", shape=(rows, 4)), relay.var("scale", shape=(1,))
    product = relay.nn.dense(x, relay.const(np.ones((3, 4), "float32")))
    return tvm.IRModule.from_expr(relay.Function([scale, x], product * scale)), None


def test_an_input_of_one_type_keeps_its_value_from_shape_to_shape():
    models = {f"x:[{rows},4]": compiled(scaled(rows)) for rows in (1, 2)}
    with CompiledShapes(models=models).executor() as executor:
        executor.set_input("scale", [3.0])
        for rows in (1, 2, 1):
            executor.run(x=np.ones((rows, 4), "float32"))
            assert executor.input_names == ("scale", "x")
            assert executor.get_output(0).numpy().tolist() == [[12.0] * 3] * rows
        assert executor.get_input_index("x") == 1
        executor.set_input(1, np.zeros((2, 4), "float32"))
        executor.run(scale=[1.0])
        assert executor.get_output(0).numpy().tolist() == [[0.0] * 3] * 2


def test_outputs_of_the_caller_belong_to_a_shape(tokens):
    small, large = tokens.models.values()
    with tokens.executor() as executor:
        own = tvm.nd.empty((1, 8, FEATURES))
        executor.set_output_zero_copy(0, own)
        executor.run(**inputs_of(large, 1))
        executor.run(**inputs_of(small, 2))
        assert np.array_equal(own.numpy(), output_alone(small, inputs_of(small, 2)))


def test_stock_tvm_runs_the_first_shape(images, tmp_path):
    path = tmp_path / "shapes.so"
    CompiledShapes(models=dict(images.models)).export_library(path)
    stock = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    first = next(iter(images.models.values()))
    inputs = inputs_of(first, 0)
    stock.run(**inputs)
    assert np.array_equal(stock.get_output(0).numpy(), output_alone(first, inputs))


def test_a_story_has_each_shape(images, tmp_path):
    story = images.story()
    shapes = [story.shape, *(each.shape for each in story.others)]
    assert shapes == list(images.models)
    assert type(story).from_bytes(story.to_bytes()) == story
    with pytest.raises(OptionError, match="compiled with a given schedule"):
        images.report()


def test_kernels_inside_a_module_are_refused(images):
    first, second = images.models.values()
    launches = tuple(replace(each, kernel="inside") for each in second.plan.launches)
    broken = replace(second, plan=replace(second.plan, launches=launches))
    shapes = CompiledShapes(models={"a": first, "b": broken})
    with pytest.raises(ModelError, match="kernel inside was compiled with the module around it"):
        shapes.export_library("never.so")
