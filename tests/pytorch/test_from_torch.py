"""Models of PyTorch as Relay: real networks against torch eager, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from torch import nn  # noqa: E402 - torch may be missing

import tvm_ios  # noqa: E402
from tests.pytorch.zoo import network  # noqa: E402
from tvm_ios.errors import ModelError  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(20)]
TARGET = "llvm -mcpu=core-avx2"


def outputs(mod, params, x):
    executor = tvm_ios.compile_schedule(mod, params, TARGET, lanes=2).executor()
    executor.run(**{executor.plan.inputs[0].name: x.numpy()})
    return [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]


@pytest.mark.parametrize(
    "name",
    [
        "squeezenet1_1",
        "mnasnet1_0",
        "googlenet",
        "inception_v3",
        "densenet121",
        "efficientnet_b0",
        "vit_b_16",
    ],
)
def test_networks_of_torchvision_give_what_torch_gives(name):
    model, x = network(name)
    mod, params = tvm_ios.from_torch(model, x)
    with torch.no_grad():
        wanted = model.double()(x.double()).numpy()
    (got,) = outputs(mod, params, x)
    scale = np.abs(wanted).max()
    assert np.abs(got - wanted).max() <= 2e-4 * scale, name


def test_an_exported_program_is_a_model():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval()
    x = torch.randn(1, 3, 8, 8)
    mod, params = tvm_ios.from_torch(torch.export.export(model, (x,)), x)
    np.testing.assert_allclose(
        outputs(mod, params, x)[0], model(x).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_inputs_have_the_names_of_forward():
    class Two(nn.Module):
        def forward(self, image, mask):
            return image * mask, image + 1

    mod, _ = tvm_ios.from_torch(Two().eval(), (torch.ones(2, 3), torch.ones(2, 3)))
    assert [each.name_hint for each in mod["main"].params] == ["image", "mask"]


class Places(nn.Module):
    def forward(self, x):
        return x.argmax(-1), x > 0, x * 2


def test_inputs_without_a_use_are_inputs_all_the_same():
    class First(nn.Module):
        def forward(self, x, left, y):
            return y - x

    given = (torch.ones(2, 3), torch.ones(4), torch.full((2, 3), 5.0))
    mod, params = tvm_ios.from_torch(First().eval(), given)
    assert [each.name_hint for each in mod["main"].params] == ["x", "left", "y"]
    model = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    with model.executor() as executor:
        executor.run(x=given[0].numpy(), left=given[1].numpy(), y=given[2].numpy())
        assert np.array_equal(executor.get_output(0).numpy(), np.full((2, 3), 4.0, "float32"))


def test_an_input_that_is_concatenated_is_one_input():
    class Twice(nn.Module):
        def forward(self, x):
            return torch.cat((x, x * 2)), x + 1

    x = torch.tensor([1.0, 3.0])
    mod, params = tvm_ios.from_torch(Twice().eval(), x)
    assert [each.name_hint for each in mod["main"].params] == ["x"]
    joined, more = outputs(mod, params, x)
    assert (joined.tolist(), more.tolist()) == ([1.0, 3.0, 2.0, 6.0], [2.0, 4.0])


def test_outputs_have_the_data_types_of_torch():
    x = torch.randn(3, 7)
    mod, params = tvm_ios.from_torch(Places().eval(), x)
    for got, wanted in zip(outputs(mod, params, x), Places()(x), strict=True):
        assert str(got.dtype) == str(wanted.dtype).removeprefix("torch.")
        np.testing.assert_allclose(got, wanted.numpy())


class Used(nn.Module):
    """One function of torch as a module."""

    def __init__(self, function, **arguments):
        super().__init__()
        self.function, self.arguments = function, arguments

    def forward(self, x):
        return self.function(x, **self.arguments)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x, alpha: torch.add(x, x * x, alpha=alpha), {"alpha": 2}),
        (nn.functional.gelu, {"approximate": "tanh"}),
        (
            lambda x, rounding_mode: torch.div(x, 0.7, rounding_mode=rounding_mode),
            {"rounding_mode": "floor"},
        ),
        (
            lambda x, rounding_mode: torch.div(x, 0.7, rounding_mode=rounding_mode),
            {"rounding_mode": "trunc"},
        ),
        (lambda x: torch.div(x.to(torch.int64), 2, rounding_mode="trunc") + x, {}),
    ],
    ids=["add", "gelu", "floor", "trunc", "whole"],
)
def test_arguments_that_tvm_overlooks_are_heeded(function, arguments):
    x = torch.linspace(-3, 3, 24).reshape(4, 6)
    model = Used(function, **arguments).eval()
    (got,) = outputs(*tvm_ios.from_torch(model, x), x)
    np.testing.assert_allclose(got, model(x).numpy(), rtol=1e-5, atol=1e-6)


class Rare(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x).relu()


class Writes(nn.Module):
    def forward(self, x):
        y = x.relu()
        y[:, 0] = 1
        return y


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (nn.ReLU(), torch.ones(2), "training mode; call model.eval"),
        (Rare().eval(), torch.ones(2), "does not know aten::special_bessel_j0"),
        (Used(lambda x: x + torch.randn(2)).eval(), torch.ones(2), "not know aten::randn"),
        (Used(torch.round, decimals=2).eval(), torch.ones(2), "aten::round with decimals=2"),
        (Used(torch.var, dim=0, correction=2).eval(), torch.ones(4), "aten::var with correction=2"),
        (Used(torch.softmax, dim=0, dtype=torch.float64).eval(), torch.ones(2), "softmax with dty"),
        (nn.AvgPool2d(2, divisor_override=3).eval(), torch.ones(1, 1, 4, 4), "divisor_override=3"),
        (Writes().eval(), torch.ones(2, 2), "changes a tensor in place that others read"),
        (nn.ReLU().eval(), [1, 2], "example_inputs is a list of int, int; give a tensor"),
        ("net.pt", torch.ones(2), "the model is a str; give a torch.nn.Module"),
        (nn.Linear(3, 4).eval(), torch.ones(2, 5), "cannot be traced: RuntimeError: "),
    ],
    ids=[
        "training",
        "rare",
        "random",
        "round",
        "var",
        "softmax",
        "pool",
        "writes",
        "inputs",
        "no-model",
        "shape",
    ],
)
def test_what_cannot_be_taken_is_named(model, inputs, message):
    with pytest.raises(ModelError, match=message):
        tvm_ios.from_torch(model, inputs)


def test_parts_of_tensors_with_gradients_are_inputs():
    x = torch.randn(5, 4, requires_grad=True)[1:].T
    mod, params = tvm_ios.from_torch(nn.ReLU().eval(), x)
    module = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1).executor()
    module.run(**{module.input_names[0]: x})
    assert torch.equal(torch.from_dlpack(module.get_output(0)), x.relu())
