from __future__ import annotations

import numpy as np
import pytest

from tests.models.count import count
from tvm_ios.errors import OptionError
from tvm_ios.models import dcgan, resnet3d_18

R3D_18_PARAMETERS = 33_371_472
"""Of torchvision's r3d_18, 400 classes."""
DCGAN_64_PARAMETERS = 3_576_704
"""Of the generator of PyTorch's DCGAN example, 64 features, 100 numbers a code."""


def sizes(params, *endings):
    return sum(value.numpy().size for name, value in params.items() if name.endswith(endings))


@pytest.mark.slow
def test_totals_of_resnet3d_are_the_published_ones():
    module, params = resnet3d_18()
    totals = count(module, params)
    # What TVM has and torchvision has not: a shortcut convolution in front, and 1000 classes.
    shortcut = 64 * 64
    normalised = 2 * (64 + 4 * 64 + 5 * 128 + 5 * 256 + 5 * 512)
    published = R3D_18_PARAMETERS - normalised - (512 + 1) * 400
    convolutions = sizes(params, "_weight") - 512 * 1000
    assert convolutions - shortcut == published
    macs = totals.macs - shortcut * 16 * 56 * 56 - 512 * 600
    assert round(macs / 1e9, 1) == 40.7


def test_totals_of_dcgan_are_the_published_ones():
    module, params = dcgan(features=64)
    # TVM does not normalise behind the first layer; running statistics are no parameters.
    assert sizes(params, "weight", "gamma", "beta") + 2 * 512 == DCGAN_64_PARAMETERS
    rising = [(512, 256, 4), (256, 128, 8), (128, 64, 16), (64, 3, 32)]
    macs = 100 * 512 * 16 + sum(16 * read * made * size**2 for read, made, size in rising)
    assert count(module, params).macs == macs


@pytest.mark.slow(1)
def test_sizes_reach_inputs_and_outputs():
    module, _ = dcgan(batch_size=2, features=4)
    assert [int(extent) for extent in module["main"].ret_type.shape] == [2, 3, 64, 64]
    module, _ = resnet3d_18(batch_size=2, frames=3, image_size=33)
    data = module["main"].params[0].checked_type
    assert [int(extent) for extent in data.shape] == [2, 3, 3, 33, 33]
    assert [int(extent) for extent in module["main"].ret_type.shape] == [2, 1000]


def test_weights_are_seeded_without_touching_the_seed_of_numpy():
    before = np.random.get_state()[1]  # noqa: NPY002
    (_, params), (_, again), (_, other) = (dcgan(features=2, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    for name, value in params.items():
        np.testing.assert_array_equal(value.numpy(), again[name].numpy())
    assert (params["dense_weight"].numpy() != other["dense_weight"].numpy()).any()
    assert (params["g2_batch_norm_moving_var"].numpy() > 0).all()


def test_calls_are_named_after_their_layers():
    module, params = dcgan(features=2)
    assert count(module, params).units == 8
    assert module["main"].body.span.source_name.name == "g5_deconv"


def test_sizes_that_tvm_has_another_network_for_are_refused():
    with pytest.raises(OptionError, match="image_size 32"):
        resnet3d_18(image_size=32)
    with pytest.raises(OptionError, match="features 0"):
        dcgan(features=0)


@pytest.mark.slow
def test_networks_need_no_pytest_and_those_of_tvm_say_that_they_do(run_python, project_root):
    script = (
        "import sys\nsys.modules['pytest'] = None\n"
        "from tvm_ios.errors import ModelError\nfrom tvm_ios.models import dcgan, nasnet_small\n"
        "nasnet_small()\n"
        "try:\n    dcgan()\nexcept ModelError as error:\n    print(error)\n"
    )
    done = run_python("-c", script, PYTHONPATH=str(project_root))
    assert done.returncode == 0, done.stderr
    assert "tvm.relay.testing" in done.stdout
    assert done.stdout.endswith("run: pip install pytest\n")
