"""Networks by name in Relax: the values that the same networks have in Relay, by equal seeds."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.relax.networks import TARGET
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.run_inputs import run_inputs
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models import by_name, relax_operators
from tvm_ios.models.transformer import TransformerBuilder


@pytest.mark.slow(5)
@pytest.mark.parametrize(
    ("name", "options", "mean", "deviation"),
    [
        ("squeezenet", {"image_size": 64}, 0.0346832, 0.0523392),
        pytest.param(
            "nasnet_small",
            {"num_cells": 1},
            0.1371162,
            0.1755778,
            marks=pytest.mark.full,
            id="nasnet",
        ),
        pytest.param(
            "mobilenet_v3_large",
            {"image_size": 64},
            1.327983,
            60.400285,
            marks=pytest.mark.full,
            id="mobilenet_v3",
        ),
    ],
)
def test_values_are_those_of_relay(name, options, mean, deviation):
    mod, params = by_name(name)(**options)
    model = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    with model.executor() as executor:
        executor.run(**run_inputs(executor.plan, executor.input_names, None))
        found = executor.get_output(0).numpy()
    assert found.mean() == pytest.approx(mean, rel=1e-3)
    assert found.std() == pytest.approx(deviation, rel=1e-3)


def test_attention_is_what_it_says():
    net = TransformerBuilder(batch_size=2, sequence=3, seed=0)
    rows = net.embed("embed", 5, 4)
    mod, params = net.finish("end", net.attend("attend", rows, rows, rows, 2))
    model = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    tokens = np.array([[0, 4, 2], [1, 1, 3]])
    with model.executor() as executor:
        executor.run(tokens=tokens)
        found = executor.get_output(0).numpy()
    values = {name.partition(".")[2]: value.numpy() for name, value in params.items()}
    embedded = values["words"][tokens] + (values["positions"] + values["segment"])
    heads = embedded.reshape(2, 3, 2, 2).transpose(0, 2, 1, 3)
    scores = heads @ heads.swapaxes(2, 3) / np.sqrt(2)
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = (shares @ heads).transpose(0, 2, 1, 3).reshape(2, 3, 4)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_value_that_is_read_twice_is_computed_once():
    data = relax_operators.var("data", shape=(2, 3))
    root = relax_operators.nn.relu(data)
    module = relax_operators.module_of([data], relax_operators.add(root, root))
    tvm.relax.analysis.well_formed(module)  # raises where it is not
    assert len(module["main"].body.blocks[0].bindings) == 2


def test_networks_by_name_are_those_of_the_command_line():
    source = ModelSource.of("squeezenet")
    assert source.name == "squeezenet"
    assert source.params
    with pytest.raises(ModelError, match="no network and no file named 'squeezent'.*squeezenet"):
        ModelSource.of("squeezent")
    with pytest.raises(OptionError, match="has weights of its own"):
        ModelSource.of("squeezenet", "weights.npz")


def test_networks_of_tvms_own_collection_are_refused():
    with pytest.raises(ModelError, match="dcgan is of TVM's collection of networks in Relay"):
        by_name("dcgan")()
