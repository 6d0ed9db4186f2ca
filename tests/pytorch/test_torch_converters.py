"""Operators of PyTorch that TVM gets wrong, against torch, and those that are refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from torch import nn  # noqa: E402 - torch may be missing
from torch.ao.quantization.fx import _decomposed  # noqa: E402, F401 - it registers operators
from torch.nn import functional as F  # noqa: E402, N812 - its usual name

import tvm_ios  # noqa: E402
from tvm_ios.errors import ModelError  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(25)]
TARGET = "llvm -mcpu=core-avx2"
INF = float("inf")

REAL = torch.arange(12.0).reshape(3, 4) - 5
WHOLE = torch.arange(12).reshape(3, 4) - 5
WIDE = WHOLE + 2**33
BYTES = (WHOLE + 5).to(torch.uint8) * 20
DRAWN = torch.linspace(-3, 2, 12).sin().reshape(3, 4)
IMAGE = torch.linspace(-9, 9, 49).cos().reshape(1, 1, 7, 7)
LAST = torch.tensor([0, -1])
PLACES = torch.tensor([[0, 0, 1], [1, 2, 2], [2, 0, 0]])
FEW = torch.tensor([[0, 2, 1, 1]])
QUERY = torch.linspace(-2, 2, 40).sin().reshape(1, 2, 5, 4)
SEQUENCE = torch.linspace(-2, 2, 40).sin().reshape(5, 2, 4)


def _masked(x):
    mask = x > 0
    mask &= x < 4
    return torch.where(mask, x, 0 * x)


GROUPS = {
    "indices below zero are of the end": [
        (lambda x: x[:, [0, -1]], REAL),
        (lambda x, i: x[i], REAL, LAST),
        (lambda x, i: x[i, :, i.int()], REAL[None].expand(2, 3, 4), LAST),
        (lambda x, i: x.index_put((i,), x[:2] * 2), REAL, LAST),
        (lambda x, i: x.index_put((i, i), torch.ones(2), accumulate=True), REAL, LAST),
        (lambda x, i: x.take(i), REAL, LAST),
    ],
    "whole numbers and truth values are summed as int64": [
        (lambda x: (x > 0).sum(), REAL),
        (lambda x: (x > 0).cumsum(1), REAL),
        (lambda x: x.sum(1, keepdim=True), BYTES),
        (lambda x: x.prod(1), BYTES),
        (lambda x: x.cumsum(0), BYTES),
    ],
    "operators on bits are of the data type of both": [
        (lambda x: x & 6, WHOLE),
        (lambda x: x & (x + 3), WIDE),
        (lambda x: x | 2**34, WIDE),
        (lambda x: torch.bitwise_xor(x, x * 3), WIDE),
        (lambda x: ~x, WIDE),
        (lambda x: (~x).float(), BYTES),
        (lambda x: ((x > 0) | (x < -2)) ^ (x > 3), REAL),
        (_masked, REAL),
    ],
    "data types are those of torch": [
        (lambda x: x.bool() + 1.0, REAL),
        (lambda x: x.to(torch.int8) * 50, REAL),
        (lambda x, y: x.to(y) / 2, REAL * 0.7, WHOLE),
        (lambda x, y: (x > 0) / (y + 7), REAL, WHOLE),
        (lambda x: torch.ones_like(x) * x, WIDE),
        (lambda x: torch.full((4,), 2**40 + 1) + x, WHOLE),
        (lambda x: ((x > 0) + (x > 1)).sum(), REAL),
        (lambda x: x.clamp(0.5, 2.5), WHOLE),
        (lambda x: x.reciprocal() + x.exp() + x.square(), WHOLE * 2 + 1),
    ],
    "infinity is beyond all numbers": [
        (lambda x: x.amax(1), torch.full((2, 3), -INF)),
        (lambda x: x.min(1)[0], torch.tensor([[INF, INF], [1.0, -INF]])),
        (lambda x: x.clamp(min=0), torch.tensor([INF, -INF, 2.0])),
        (lambda x: x.clamp(max=0), torch.tensor([INF, -INF, 2.0])),
        (lambda x: torch.baddbmm(x[None] * INF, x[None], x[None], beta=0), DRAWN[:, :3]),
    ],
    "functions have the arguments that they are given": [
        (lambda x: torch.roll(x, 1) + torch.roll(x, 1, -1), REAL),
        (lambda x: x.round(), torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 0.3, INF])),
        (lambda x: F.softplus(x, threshold=0.5), DRAWN),
        (lambda x: F.softplus(x, threshold=0), DRAWN),
        (lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.2), QUERY),
        (lambda x: torch.mv(x, x[0]), DRAWN[:1]),
    ],
    "windows that are rounded up begin in the data": [
        (nn.MaxPool2d(2, 3, padding=1, ceil_mode=True), IMAGE[:, :, :5, :5]),
        (nn.AvgPool2d(4, 3, padding=2, ceil_mode=True), IMAGE),
        (nn.MaxPool1d(2, 3, padding=1, ceil_mode=True), IMAGE[0, :, :5]),
    ],
    "places beyond the first ones count": [
        (lambda x, i: x.scatter_add(1, i, x), DRAWN, PLACES),
        (lambda x, i: x.scatter(-2, i, x), DRAWN, FEW),
        (lambda x, i: x.scatter(0, i, 5.0), DRAWN, FEW),
        (lambda x, i: x.scatter_reduce(1, i, x, "amax"), DRAWN, PLACES),
    ],
    "parts are as long as those of torch": [
        (lambda x: x.flatten().tensor_split(5), REAL),
        (lambda x: x.flatten()[:9].chunk(7), REAL),
        (lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    ],
}

WHOLE8 = {"quant_min": -128, "quant_max": 127, "dtype": torch.int8}
BYTES8 = {"quant_min": 0, "quant_max": 255, "dtype": torch.uint8}
SCALES, ZEROS = torch.tensor([0.1, 0.3, 0.07]), torch.tensor([3, -4, 0])


def _steps(name, *given, **how):
    return getattr(torch.ops.quantized_decomposed, name)(*given, **how)


def _by_chosen_steps(x, choose, how):
    scale, zero = _steps(choose, x, eps=1e-6, **how)
    whole = _steps("quantize_per_tensor", x, scale, zero, **how)
    return whole, _steps("dequantize_per_tensor", whole, scale, zero, **how)


GROUPS["numbers are steps of scales"] = [
    (lambda x: _steps("quantize_per_tensor", x, 0.023, 7, **WHOLE8), DRAWN),
    (lambda x: _steps("quantize_per_tensor", x, 0.023, 7, -20, 30, torch.int8), DRAWN),
    (lambda x: _steps("quantize_per_tensor", x, 3e-4, 9, -9000, 9000, torch.int16), DRAWN),
    (lambda x: _steps("dequantize_per_tensor", x, 0.1, 128, **BYTES8), BYTES),
    (lambda x: _steps("quantize_per_channel", x, SCALES, ZEROS, 0, **WHOLE8), DRAWN),
    (lambda x: _steps("dequantize_per_channel", x, SCALES, ZEROS, 0, **BYTES8), BYTES),
    (lambda x: _by_chosen_steps(x, "choose_qparams", BYTES8), DRAWN),
    (lambda x: _by_chosen_steps(x, "choose_qparams", WHOLE8), DRAWN.abs()),
    (lambda x: _by_chosen_steps(x, "choose_qparams_symmetric", WHOLE8), DRAWN),
    (lambda x: _by_chosen_steps(x, "choose_qparams_symmetric", BYTES8), DRAWN),
]


class Used(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def results(model, given):
    mod, params = tvm_ios.from_torch(model, given)
    with tvm_ios.compile_schedule(mod, params, TARGET, lanes=1).executor() as executor:
        names = [each.name_hint for each in mod["main"].params[: len(given)]]
        executor.run(**{name: x.numpy() for name, x in zip(names, given, strict=True)})
        return [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]


@pytest.mark.parametrize("group", GROUPS)
def test_what_tvm_gets_wrong_is_what_torch_gives(group):
    for place, (function, *given) in enumerate(GROUPS[group]):
        model = Used(function).eval()
        wanted = model(*given)
        wanted = [wanted] if isinstance(wanted, torch.Tensor) else wanted
        for got, expected in zip(results(model, tuple(given)), wanted, strict=True):
            assert str(got.dtype) == str(expected.dtype).removeprefix("torch."), place
            np.testing.assert_allclose(got, expected.numpy(), 1e-4, 1e-5, err_msg=str(place))


def test_last_states_of_both_directions_are_along_one_axis():
    gru = nn.GRU(4, 3, 2, bidirectional=True).eval()
    output, state = results(gru, (SEQUENCE,))
    with torch.no_grad():
        wanted = gru(SEQUENCE)
    np.testing.assert_allclose(output, wanted[0].numpy(), 1e-4, 1e-5)
    np.testing.assert_allclose(state, wanted[1].numpy(), 1e-4, 1e-5)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize(
    ("function", "given", "named"),
    [
        (
            lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
            IMAGE,
            "by a scale that does not give a whole size",
        ),
        (lambda x: F.interpolate(x, scale_factor=1.3), IMAGE, "by a scale"),
        (lambda x: x[:, BYTES[0]], REAL, "by a mask of bytes"),
        (lambda x: x.index_put((x > 0,), torch.tensor(0.0)), REAL, "index_put by a mask"),
        (lambda x: F.pad(x, (1, 0, 0, 1, 1, 1, 0, 2)), IMAGE, "of more than three axes"),
        (lambda x: x**3, WHOLE, "pow of whole numbers"),
        (lambda x: torch.meshgrid(x[0], x[1], indexing="xy"), REAL, "indexing=xy"),
        (lambda x: F.cross_entropy(x, x[:, 0].long() * 0), IMAGE, "of more axes than two"),
        (lambda x: x.scatter_reduce(1, PLACES, x, "mean"), DRAWN, "reduce=mean"),
        (lambda x: torch._weight_norm(x, x.sum(), -1), DRAWN, "dim=-1"),
        (
            lambda x: _steps("quantize_per_tensor", x, 0.1, 0, -(2**20), 2**20, torch.int32),
            DRAWN,
            "quantize_per_tensor to other types than int8 to 16",
        ),
    ],
)
def test_what_tvm_would_compute_otherwise_is_refused(function, given, named):
    with pytest.raises(ModelError, match=named):
        tvm_ios.from_torch(Used(function).eval(), given)


def test_a_tensor_that_is_overwritten_by_bits_and_read_again_is_refused():
    def both(x):
        mask = x > 0
        seen = mask.view(-1)
        mask &= x < 4
        return seen

    with pytest.raises(ModelError, match="bitwise_and_ .* changes a tensor in place"):
        tvm_ios.from_torch(Used(both).eval(), REAL)
