"""Functions and modules with ``torch.compile(…, backend="tvm_ios")``, hastily tuned."""

from __future__ import annotations

import torch

from tvm_ios import BuildOptions, CompareOptions, TuneOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import MeasureOptions

CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
QUICK = TuneOptions(
    measure=MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM),
    compare=CompareOptions(rounds=6, min_repeat_ms=0.5, mode=CALM),
    build=BuildOptions(libraries=(), pad_channels=False),
)
OPTIONS = {"options": QUICK, "lanes": 2, "target": "llvm -mcpu=core-avx2"}


def compiled(model, *, dynamic=None, **options):
    """A function or module, compiled when it is called."""
    torch._dynamo.reset()
    model = model.eval() if isinstance(model, torch.nn.Module) else model
    return torch.compile(model, backend="tvm_ios", dynamic=dynamic, options=OPTIONS | options)


def image(batch=2):
    """Small images, the same ones for the same batch size."""
    return torch.randn(batch, 3, 12, 12, generator=torch.Generator().manual_seed(batch))
