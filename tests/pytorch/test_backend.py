"""``torch.compile(model, backend="tvm_ios")`` against torch eager, and what it leaves to torch."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from torch import nn  # noqa: E402 - torch may be missing
from torch.nn import functional as F  # noqa: E402, N812 - as everybody writes it

from tests.pytorch.compiling import compiled, image  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(20)]


class Branches(nn.Module):
    """Two convolutions of one input, changes in place, a buffer, and outputs of several kinds."""

    def __init__(self, rare=None):
        super().__init__()
        self.left = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16))
        self.right = nn.Conv2d(3, 16, 1)
        self.head = nn.Linear(16, 4)
        self.rare = rare
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x):
        y = F.relu(self.left(x), inplace=True) + self.right(x)
        if self.rare is not None:
            y = self.rare(y)
        y = torch.cat([F.relu(y[:, 2:], inplace=False), y[:, :2].sigmoid()], 1)
        z = self.head(y.mean((2, 3)))
        z += self.shift
        return {"logits": z, "features": y, "batch": x.shape[0], "positive": z > 0}


class Noise(nn.Module):
    def forward(self, x):
        return F.relu(x * 2) + torch.randn(12)


def assert_same(got, wanted):
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(got[name], value, rtol=1e-4, atol=1e-5, msg=name)
        else:
            assert got[name] == value


@torch.no_grad()
def test_a_model_runs_as_one_part_and_new_shapes_compile_again(parts, said):
    model = Branches()
    run = compiled(model)
    for batch in (2, 2, 3, 4, 3):
        assert_same(run(image(batch)), model(image(batch)))
    inputs = [part.model.executor().get_input_info()[0] for part in parts]
    batches = [each[name][0] for each in inputs for name in each if name.lower() == "l_x_"]
    assert batches == [2, 3, 4]
    assert said() == []


@torch.no_grad()
def test_what_tvm_does_not_know_runs_in_torch_and_is_named(parts, said):
    model = Branches(rare=torch.special.bessel_j0)
    run = compiled(model)
    for _ in range(2):
        assert_same(run(image()), model(image()))
    assert parts
    (line,) = said()
    assert re.fullmatch(r"tvm_ios leaves \d of 15 calls to torch: .*", line)
    assert "aten::special_bessel_j0 (1)" in line


@torch.no_grad()
def test_a_part_without_elements_runs_in_torch(said, parts):
    nothing = torch.zeros(0, 4)
    run = compiled(lambda x: {"shifted": x * 2 + 1})
    assert_same(run(nothing), {"shifted": nothing})
    assert not parts
    assert said() == ["tvm_ios leaves a part of a graph to torch: a tensor of it has no elements"]


@torch.no_grad()
def test_random_numbers_are_drawn_by_torch(said):
    fast = compiled(Noise())
    x = image()
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        got = fast(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(got, Noise()(x))
    assert "aten::randn" in said()[0]


@torch.no_grad()
def test_weights_that_change_are_seen(said):
    model = Branches()
    run = compiled(model)
    before = run(image())["logits"]
    model.head.weight.mul_(2)
    assert_same(run(image()), model(image()))
    assert not torch.allclose(before, run(image())["logits"])
    assert said() == ["tvm_ios compiles a graph again, since weights have changed"]


def test_weights_of_inference_mode_are_weights(said, parts):
    with torch.inference_mode():
        model = Branches()
        run = compiled(model)
        for _ in range(2):
            assert_same(run(image()), model(image()))
    assert len(parts) == 1
    assert said() == []


def test_training_stays_with_torch(said, parts):
    model = Branches()
    run = compiled(model)
    run(image())["logits"].sum().backward()
    assert model.head.weight.grad is not None
    assert "torch.inference_mode()" in said()[0]
    assert parts == []
    with torch.inference_mode():
        assert_same(run(image()), model(image()))
    assert len(parts) == 1


class WritesThroughAView(nn.Module):
    def forward(self, x):
        y = x.relu()
        y[:, 0] = 1
        return y * 2


@torch.no_grad()
def test_a_write_that_others_see_stays_with_torch(said, parts):
    model = WritesThroughAView()
    run = compiled(model)
    torch.testing.assert_close(run(image()), model(image()))
    assert "changes a tensor in place that others read" in said()[0]
    assert parts == []


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_write_beside_numbers_stays_with_torch(said, parts, mode):
    def written(x):
        y = torch.relu(x)
        y[0] = 1.0
        return y * 2, x.shape[0]

    run = compiled(written, dynamic=True)
    with mode():
        torch.testing.assert_close(run(image()), written(image()))
    assert "changes a tensor in place that others read" in said()[0]
    assert parts == []


@torch.no_grad()
@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_a_number_that_is_computed_is_no_constant(parts):
    def scaled(x):
        return torch.sigmoid(torch.relu(x)) * x.max().item()

    run = compiled(scaled)
    for x in (image(), 3 * image()):
        torch.testing.assert_close(run(x), scaled(x))
    assert len(parts) == 1


@torch.no_grad()
def test_batch_normalisation_in_training_stays_with_torch(said):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8))
    twin = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8))
    twin.load_state_dict(model.state_dict())
    run = compiled(model)
    model.train(), twin.train()
    torch.testing.assert_close(run(image()), twin(image()), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model[2].running_mean, twin[2].running_mean)
    assert said()


@torch.no_grad()
def test_tensors_lie_where_the_caller_has_them(parts):
    """An input is not copied, nor is an output; one that no kernel could read is."""
    model = Branches()
    run = compiled(model)
    x = image()
    first = run(x)["features"].clone()
    kept = run(x)["features"]
    executor = parts[0]._executor
    assert executor.get_input(0).handle.contents.data == x.data_ptr()
    assert kept.data_ptr() in {
        executor.get_output(n).handle.contents.data for n in range(executor.get_num_outputs())
    }
    flat = torch.empty(x.numel() + 1)
    unaligned = flat[1:].view_as(x).copy_(x)
    strided = x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    for other in (unaligned, strided):
        torch.testing.assert_close(run(other)["features"], first, rtol=0, atol=0)
    torch.testing.assert_close(kept, first, rtol=0, atol=0)


class Flattened(nn.Module):
    """Outputs that lie in an input, in a weight, or where another output does."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        y = F.relu(self.conv(x))
        return {"y": y, "flat": y.flatten(1), "input": x.flatten(1), "bias": self.conv.bias + 0}


def test_outputs_that_share_their_bytes_are_those_of_torch():
    model = Flattened()
    fast = compiled(model)
    for batch in (2, 2):
        x = torch.randn(batch, 3, 12, 12)
        with torch.no_grad():
            assert_same(fast(x), model(x))


def test_an_unknown_option_is_named():
    with torch.no_grad(), pytest.raises(Exception, match="has no option 'budget'; it has target"):
        compiled(Branches(), budget=3)(image())


def test_torch_lists_the_backend():
    assert "tvm_ios" in torch.compiler.list_backends()
