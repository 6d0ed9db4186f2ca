"""A network is the same fused functions through every door: both exporters, traces, captures."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

import torch.nn.functional as F  # noqa: E402, N812 - torch may be missing
from torch import nn  # noqa: E402
from tvm import relay  # noqa: E402

import tvm_ios  # noqa: E402
from tvm_ios.errors import ModelError  # noqa: E402
from tvm_ios.relay.dataflow import all_calls, kernel_calls  # noqa: E402
from tvm_ios.relay.functions.shapes import RESHAPES  # noqa: E402
from tvm_ios.relay.functions.views import view_of  # noqa: E402
from tvm_ios.relay.prepare import prepare  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(10)]
TARGET = "llvm -mcpu=core-avx2"


class Attention(nn.Module):
    """Attention written out."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def split(self, part, x):
        return part(x).view(*x.shape[:2], 4, 8).permute(0, 2, 1, 3)

    def mixed(self, query, key, value):
        scores = query @ key.transpose(-1, -2) / math.sqrt(8)
        return scores.softmax(-1) @ value

    def forward(self, x):
        read = self.mixed(*(self.split(part, x) for part in self.parts[:3]))
        return x + self.parts[3](read.permute(0, 2, 1, 3).reshape(x.shape))


class CalledAttention(Attention):
    """Attention as torch's function."""

    def mixed(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value)


class PackedAttention(nn.Module):
    """Attention of one product for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.packed = nn.Linear(32, 96)

    def forward(self, x):
        parts = self.packed(x).reshape(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        scores = (query * 8**-0.5) @ key.transpose(-2, -1)
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)


class Excite(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)

    def forward(self, x):
        mean = x.mean((2, 3), keepdim=True)
        return x * F.hardsigmoid(self.second(F.relu(self.first(mean))))


def layer():
    own = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
    return nn.Sequential(own)  # the old exporter makes tensors of arguments with defaults


def images():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        Excite(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


ROWS, IMAGE = (1, 6, 32), (1, 3, 10, 10)
NETWORKS = {
    "attention": (Attention, ROWS),
    "called": (CalledAttention, ROWS),
    "packed": (PackedAttention, ROWS),
    "layer": (layer, ROWS),
    "images": (images, IMAGE),
}


@pytest.fixture(params=NETWORKS)
def case(request):
    make, shape = NETWORKS[request.param]
    torch.manual_seed(0)
    model = make().eval()
    for name, weight in model.named_parameters():
        if "bias" in name:  # exporters leave out biases of zeros
            nn.init.normal_(weight)
    return model, torch.randn(*shape)


def exported(model, example, folder, **options):
    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, on its own code
        torch.onnx.export(model, (example,), str(path), external_data=False, **options)
    return tvm_ios.from_onnx(str(path))


def captured(model, example, monkeypatch):
    """What the backend of ``torch.compile`` hands to ``tune``."""
    from tvm_ios.pytorch import relay_graph

    seen = []

    def refuse(call):
        seen.append((call.mod, call.params))
        raise ModelError("seen")

    monkeypatch.setattr(relay_graph, "begin_tune", refuse)
    torch.compiler.reset()
    with torch.inference_mode():
        torch.compile(model, backend="tvm_ios")(example)
    (given,) = seen
    return given


def functions(mod, params):
    """Operators and elements of each fused function that needs a kernel, reshapes left out."""
    found = Counter()
    for call in kernel_calls(prepare(mod, params, TARGET).module["main"].body):
        names = [each.op.name for each in all_calls(call.op.body)]
        if view_of(call.op, list(call.args)) is None:
            shape = [int(extent) for extent in call.checked_type.shape if int(extent) > 1]
            found[*(name for name in names if name not in RESHAPES), *shape] += 1
    return found


def test_doors_lead_to_the_same_functions(case, tmp_path, monkeypatch):
    model, example = case
    wanted = functions(*tvm_ios.from_torch(model, example))
    assert functions(*captured(model, example, monkeypatch)) == wanted
    old = {"dynamo": False, "opset_version": 17}
    assert functions(*exported(model, example, tmp_path, **old)) == wanted
    pytest.importorskip("onnxscript", reason="torch's new exporter needs onnxscript")
    new = {"dynamo": True, "opset_version": 20, "verbose": False}
    assert functions(*exported(model, example, tmp_path, **new)) == wanted


def test_functions_compute_what_torch_computes(case):
    model, example = case
    mod, params = tvm_ios.from_torch(model, example)
    executor = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1).executor()
    executor.run(**{executor.input_names[0]: example.numpy()})
    with torch.no_grad():
        wanted = model(example).numpy()
    np.testing.assert_allclose(executor.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_a_layer_that_torch_calls_as_one_operator_is_taken_apart(monkeypatch):
    for more in ({}, {"norm_first": True}, {"activation": "relu"}):
        told = {"activation": "gelu", "batch_first": True, **more}
        torch.manual_seed(0)
        model, example = nn.TransformerEncoderLayer(32, 4, 64, **told).eval(), torch.randn(2, 6, 32)
        mod, params = captured(model, example, monkeypatch)
        run = relay.create_executor("graph", mod=mod, target="llvm").evaluate()
        found = run(example.numpy(), **params)
        with torch.inference_mode():
            wanted = model(example).numpy()
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
