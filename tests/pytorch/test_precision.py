"""``torch.compile`` in bfloat16: outputs are near torch's, or the graph is left to torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from tests.bfloat16 import needs_bfloat16  # noqa: E402 - torch may be missing
from tests.pytorch.compiling import QUICK, compiled  # noqa: E402
from tvm_ios.measure.comparison import CompareRound, Comparison  # noqa: E402
from tvm_ios.profile import build_choice  # noqa: E402
from tvm_ios.pytorch import part  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(10), needs_bfloat16]

LOW = {
    "precision": "bfloat16",
    "options": replace(QUICK, build=replace(QUICK.build, libraries=None)),
    "lanes": 1,
    "wait": True,
}


@pytest.fixture(autouse=True)
def _faster_in_bfloat16(monkeypatch):
    def race(models, **_options):
        times = tuple(1e6 if "bfloat16" in name else 2e6 for name in models)
        row = CompareRound(run_ns=times, ping_pong_ns=0.0, slow=False)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3, padding=1),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 64, 10),
    ).eval()


@torch.no_grad()
def test_outputs_are_within_the_bound(parts):
    net, x = model(), torch.randn(1, 3, 8, 8)
    found, wanted = compiled(net, **LOW)(x), net(x)
    assert parts[0].model.schedule.low is not None
    off = float((found - wanted).abs().max() / wanted.abs().max())
    assert 1e-5 < off < 0.03


@torch.no_grad()
def test_a_graph_whose_error_is_too_large_is_left_to_torch(monkeypatch, said):
    def told(*_given, max_relative_error):
        return f"all differ by {max_relative_error}" if max_relative_error else None

    monkeypatch.setattr(part, "disagreement", told)
    net, x = model(), torch.randn(1, 3, 8, 8)
    found = compiled(net, **LOW, max_relative_error=0.02)(x)
    torch.testing.assert_close(found, net(x))
    assert "all differ by 0.02 in bfloat16 by more than max_relative_error=0.02" in " ".join(said())
