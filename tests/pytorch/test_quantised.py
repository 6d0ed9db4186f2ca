"""Models that torchao quantised, against what torch computes of them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")
pytest.importorskip("torchao", reason="needs torchao; `make test-torch` has it")

from torch import nn  # noqa: E402 - torch may be missing
from tvm import relay  # noqa: E402

import tvm_ios  # noqa: E402
from tests.pytorch.compiling import QUICK, compiled  # noqa: E402
from tvm_ios.errors import ModelError  # noqa: E402
from tvm_ios.pytorch import part  # noqa: E402
from tvm_ios.pytorch.agreement import QUANTISED, disagreement  # noqa: E402
from tvm_ios.relay.dataflow import all_calls, is_call_of  # noqa: E402
from tvm_ios.relay.functions.quantised import is_fake_quantize  # noqa: E402
from tvm_ios.relay.transforms.quantised.whole_numbers import in_numbers  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow(20),
    pytest.mark.filterwarnings("ignore:The input of maxpool2d is not quantized"),
]
STEPS = 255


def convolved(channels, more, kernel, **how):
    how = {"padding": kernel // 2, "bias": False, **how}
    return nn.Sequential(nn.Conv2d(channels, more, kernel, **how), nn.BatchNorm2d(more), nn.ReLU())


class Images(nn.Module):
    """A network of images with what those for telephones have, of 24 to 48 channels."""

    def __init__(self):
        super().__init__()
        self.first, self.wide = convolved(3, 24, 3, stride=2), convolved(24, 48, 1)
        self.each = convolved(48, 48, 3, groups=48)
        self.narrow = nn.Sequential(nn.Conv2d(48, 24, 1), nn.BatchNorm2d(24))
        self.last, self.classes = convolved(24, 48, 3), nn.Linear(48, 10)

    def forward(self, x):
        x = self.first(x)
        x = torch.relu(x + self.narrow(self.each(self.wide(x))))
        x = nn.functional.max_pool2d(x, 2)
        x = nn.functional.adaptive_avg_pool2d(self.last(x), 1)
        return self.classes(x.flatten(1))


def layer():
    own = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
    return nn.Sequential(own)


MODELS = {
    "images": (Images, (1, 3, 48, 48), {}),
    "layer": (layer, (2, 10, 64), {}),
    "layer, steps chosen in each run": (layer, (2, 10, 64), {"is_dynamic": True}),
}


@pytest.fixture(params=MODELS)
def case(request):
    """A quantised model, an example, and what torch gives for it."""
    make, shape, how = MODELS[request.param]
    torch.manual_seed(0)
    model, example = make().eval(), torch.randn(*shape)
    model = quantised(model, example, **how)
    with torch.no_grad():
        return model, example, model(example).numpy()


def quantised(model, example, **how):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of torchao, on its own code
        from torchao.quantization.pt2e import quantize_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        config = x86.get_default_x86_inductor_quantization_config(**how)
        quantizer = x86.X86InductorQuantizer().set_global(config)
        graph = torch.export.export(model, (example,)).module()
        prepared = quantize_pt2e.prepare_pt2e(graph, quantizer)
        prepared(example)
        return quantize_pt2e.convert_pt2e(prepared)


def assert_within_a_step(found, wanted):
    steps = np.abs(found - wanted) / np.ptp(wanted) * STEPS
    assert (steps > 1).mean() <= 1e-3, steps.max()


@pytest.mark.parametrize("target", ["llvm -mcpu=core-avx2", None])
def test_values_are_those_of_torch(case, target):
    model, example, wanted = case
    mod, params = tvm_ios.from_torch(model, example)
    assert any(map(is_fake_quantize, all_calls(in_numbers(mod)["main"].body)))
    with tvm_ios.compile_schedule(mod, params, target, lanes=2).executor() as executor:
        executor.run(**{executor.input_names[0]: example.numpy()})
        assert_within_a_step(executor.get_output(0).numpy(), wanted)


def test_captured_models_are_compiled(case, parts, said, monkeypatch):
    model, example, wanted = case
    bounds = []

    def compared(*given, max_relative_error):
        bounds.append(max_relative_error)
        return disagreement(*given, max_relative_error=max_relative_error)

    monkeypatch.setattr(part, "disagreement", compared)
    options = replace(QUICK, build=replace(QUICK.build, libraries=None))
    with torch.inference_mode():
        found = compiled(model.forward, target=None, options=options, wait=True)(example)
    assert len(parts) == 1
    assert bounds == [QUANTISED]
    assert not said()
    assert_within_a_step(found.numpy(), wanted)


def test_products_multiply_whole_numbers_whose_steps_each_run_chooses():
    example = torch.randn(2, 5, 64)
    model = quantised(nn.Sequential(nn.Linear(64, 32)).eval(), example, is_dynamic=True)
    mod, _ = tvm_ios.from_torch(model, example)
    body = relay.transform.InferType()(in_numbers(mod))["main"].body
    (product,) = (call for call in all_calls(body) if is_call_of(call, "nn.dense"))
    assert is_fake_quantize(product.args[0].args[0])


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_what_knows_its_scales_itself_is_refused_with_another_way():
    class Rounded(nn.Module):
        def forward(self, x):
            return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()

    with pytest.raises(ModelError, match="aten::quantize_per_tensor; quantise by convert_pt2e"):
        tvm_ios.from_torch(Rounded().eval(), torch.ones(2))
