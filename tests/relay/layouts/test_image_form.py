"""A model in any form computes the same behind the same inputs."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_outputs
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.errors import ModelError
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.layouts.image_form import in_form
from tvm_ios.relay.layouts.places import convolutions_of

TARGET = resolve_target("llvm -mcpu=skylake-avx512 -opt-level=0")


def model():
    """Four convolutions with a batch norm, a joint and a sum, and a transposed one."""
    random = np.random.default_rng(0)
    shapes = {
        "a": (14, 3, 3, 3), "b": (14, 14, 3, 3), "c": (20, 14, 1, 1), "d": (20, 34, 1, 1),
        "t": (20, 8, 2, 2), "gamma": (14,), "beta": (14,), "mean": (14,), "var": (14,),
    }  # fmt: skip
    weights = {name: relay.var(name, shape=shape) for name, shape in shapes.items()}

    def conv(value, name):
        size = shapes[name][2]
        return relay.nn.conv2d(
            value, weights[name], channels=shapes[name][0], kernel_size=(size, size),
            padding=size // 2,
        )  # fmt: skip

    value = conv(relay.var("x", shape=(1, 3, 8, 8)), "a")
    value = relay.nn.batch_norm(value, *(weights[n] for n in ("gamma", "beta", "mean", "var")))[0]
    value = relay.nn.relu(value)
    value = relay.nn.relu(conv(value, "b") + value)
    wide = conv(value, "c")
    value = conv(relay.concatenate([wide, value], axis=1), "d") * relay.sigmoid(wide)
    value = relay.nn.conv2d_transpose(
        value, weights["t"], channels=8, kernel_size=(2, 2), strides=(2, 2)
    )
    params = {
        name: random.uniform(0.1, 1, shape).astype("float32") for name, shape in shapes.items()
    }
    return tvm.IRModule.from_expr(value), params


@pytest.fixture(scope="module")
def output_of(reference_build):
    def output(mod, params=None):
        values = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype("float32")
        return stock_outputs(reference_build(mod, params, TARGET), x=values)[0]

    return output


def layouts_in(mod) -> tuple[str, ...]:
    convolutions = convolutions_of(mod)
    return tuple(str(each.attrs.data_layout) for each in convolutions)


@pytest.fixture(scope="module")
def expected(output_of):
    return output_of(*model())


@pytest.mark.slow
@pytest.mark.parametrize("letters", ["LLLLL", "BBBBB", "LBLBB", "BLBLL"])
def test_it_computes_the_same(letters, expected, output_of):
    layouts = tuple(CHANNELS_LAST if each == "L" else BLOCKS for each in letters)
    mod, told = in_form(*model(), ImageForm(layouts=layouts), TARGET)
    # A transposed convolution in one piece is a function of its own.
    assert layouts_in(mod) == (layouts[:4] if layouts[4] == CHANNELS_LAST else layouts)
    assert told.startswith(f"{letters.count('L')} convolutions have channels last and ")
    np.testing.assert_allclose(output_of(mod), expected, rtol=1e-4)


@pytest.mark.slow
def test_a_transposed_convolution_written_anew_has_a_layout_of_its_own(expected, output_of):
    layouts = (BLOCKS,) * 4 + (CHANNELS_LAST,)
    mod, told = in_form(*model(), ImageForm(written=(0,), layouts=layouts), TARGET)
    assert layouts_in(mod) == layouts
    assert told.endswith("; 1 were transposed ones")
    np.testing.assert_allclose(output_of(mod), expected, rtol=1e-4)


def test_only_channels_in_blocks_are_padded():
    form = ImageForm(layouts=(BLOCKS, BLOCKS, CHANNELS_LAST, CHANNELS_LAST, CHANNELS_LAST))
    mod, told = in_form(*model(), form, TARGET)
    extents = [int(each.attrs.channels) for each in convolutions_of(mod)]
    assert extents == [16, 16, 20, 20]
    assert "2 are padded to whole blocks" in told
    mod, _ = in_form(*model(), form, TARGET, pads=False)
    extents = [int(each.attrs.channels) for each in convolutions_of(mod)]
    assert extents == [14, 14, 20, 20]


def test_a_form_of_another_model_is_refused():
    with pytest.raises(ModelError, match="layouts of 2 convolutions, and the model has 5"):
        in_form(*model(), ImageForm(layouts=(BLOCKS, BLOCKS)), TARGET)
