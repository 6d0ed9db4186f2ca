"""Tensors are as large as the memory of this machine, and no larger."""

from __future__ import annotations

import os

import pytest

from tvm_ios.core.tensor_size import require_size
from tvm_ios.errors import ModelError


def test_the_memory_is_the_bound():
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    require_size("input 'x' is", (most // 4,), 32)
    require_size("input 'x' is", (0, 2**62), 32)
    with pytest.raises(ModelError) as caught:
        require_size("input 'x' is", (2, most), 8)
    assert str(caught.value) == (
        f"input 'x' is a tensor of shape [2, {most}] and {2 * most} bytes, more than the {most} "
        "bytes of this machine's memory; give a model with smaller shapes"
    )
