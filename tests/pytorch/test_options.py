"""Options of the backend of ``torch.compile``: a target it cannot run is refused. Without torch."""

from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.pytorch.options import BackendOptions


def test_a_gpu_is_refused_before_anything_is_tuned():
    assert BackendOptions.of({"target": "llvm -mcpu=core-avx2"}).tuning is None
    with pytest.raises(OptionError, match=r"sm_90', but .* runs on the CPU.*from_torch"):
        BackendOptions.of({"target": "cuda -arch=sm_90"})
