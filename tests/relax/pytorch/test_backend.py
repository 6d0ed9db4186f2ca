"""Models of PyTorch in Relax: imported by ``torch.export``, compiled by the backend of torch."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.documents import DOCS, code_blocks
from tests.relax.driver.test_tune import OWN_KERNELS
from tests.relax.networks import TARGET
from tvm_ios.errors import ModelError

torch = pytest.importorskip("torch", reason="needs torch; `make test-torch` has it")


class Net(torch.nn.Module):
    """Two branches of an image, and an input that comes back scaled."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.left = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.right = torch.nn.Conv2d(3, 8, 1)
        self.norm = torch.nn.BatchNorm2d(16)

    def forward(self, image, scale):
        """Means of both branches, and the scaled image."""
        joined = torch.cat([torch.relu(self.left(image)), self.right(image)], 1)
        return self.norm(joined).mean((2, 3)), image * scale


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def given():
    torch.manual_seed(1)
    return torch.randn(1, 3, 6, 6), torch.randn(1)


def test_a_model_is_imported_with_the_names_of_its_inputs(net, given):
    mod, params = tvm_ios.from_torch(net, given)
    assert params == {}
    model = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    image, scale = (each.numpy() for each in given)
    with torch.no_grad():
        wanted = [each.numpy() for each in net(*given)]
    with model.executor() as executor:
        executor.run(image=image, scale=scale)
        for number, each in enumerate(wanted):
            found = executor.get_output(number).numpy()
            np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-5)
    program = torch.export.export(net, given)
    assert [each.name for each in tvm_ios.from_torch(program, given)[0]["main"].params] == [
        "image",
        "scale",
    ]


def test_what_cannot_be_imported_is_one_line(net, given):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return x + self.count

    class Sorts(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    for model, inputs, message in (
        (Net(), given, "in training mode; call model.eval"),
        (net, [1], "example_inputs is a list of int; give a tensor"),
        ("net", given, "the model is a str; give a torch.nn.Module"),
        (Counts().eval(), given[:1], "the model changes 'count' in place"),
        (Sorts().eval(), given[:1], "TVM's importer of PyTorch for Relax says"),
    ):
        with pytest.raises(ModelError, match=message) as caught:
            tvm_ios.from_torch(model, inputs)
        assert "\n" not in str(caught.value)


@pytest.mark.slow(20)
def test_the_backend_compiles_a_graph_as_a_whole(net, given, caplog):
    caplog.set_level(logging.WARNING, "tvm_ios.pytorch")
    options = {"options": OWN_KERNELS, "lanes": 1, "target": TARGET}
    compiled = torch.compile(net, backend="tvm_ios", options=options)
    with torch.inference_mode():
        for found, wanted in zip(compiled(*given), net(*given), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert not [each for each in caplog.records if "leaves" in each.getMessage()]

    def sorts(x):
        return torch.linalg.svdvals(x)

    with torch.inference_mode():
        found = torch.compile(sorts, backend="tvm_ios", options=options)(given[0])
        torch.testing.assert_close(found, sorts(given[0]))
    (said,) = [each.getMessage() for each in caplog.records]
    assert said.startswith("tvm_ios leaves a graph to torch: TVM's importer of PyTorch")


@pytest.mark.slow(20)
def test_a_graph_of_another_batch_is_compiled_too(net, given, caplog):
    """torch captures it with sizes left free, and guards on them."""
    caplog.set_level(logging.WARNING, "tvm_ios.pytorch")
    options = {"options": OWN_KERNELS, "lanes": 1, "target": TARGET}
    compiled = torch.compile(net, backend="tvm_ios", options=options)
    for batch in (1, 2, 3):
        image = given[0].expand(batch, -1, -1, -1)
        with torch.inference_mode():
            found, wanted = compiled(image, given[1]), net(image, given[1])
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert not [each for each in caplog.records if "leaves" in each.getMessage()]


def test_our_pipeline_takes_what_tvms_importer_makes(net, given):
    """As the TVM backend of torch does with ``options={"pipeline": …}``, once torch has that."""
    mod, _ = tvm_ios.from_torch(net, given)
    pipeline = tvm.relax.get_pipeline("tvm_ios")
    executable = tvm.compile(mod, target=tvm.target.Target(TARGET), relax_pipeline=pipeline)
    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(each.numpy()) for each in given))
    with torch.no_grad():
        for one, wanted in zip(found, net(*given), strict=True):
            np.testing.assert_allclose(one.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch, in its own code
def test_the_page_takes_what_tvms_importer_makes(tmp_path, monkeypatch):
    (code,) = code_blocks(DOCS / "own-model.md", "python relax")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    names = {"module": module.eval(), "image": torch.randn(1, 3, 16, 16)}
    exec(compile(code, "own-model.md", "exec"), names)
    with torch.no_grad():
        wanted = module(names["image"]).numpy()
    with names["model"].executor() as executor:
        executor.run(**{executor.input_names[0]: names["image"].numpy()})
        assert abs(executor.get_output(0).numpy() - wanted).max() <= 1e-4 * abs(wanted).max()
