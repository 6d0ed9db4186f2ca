"""Which differences rounding explains, and which it does not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from tvm_ios.pytorch.agreement import disagreement  # noqa: E402 - torch may be missing

pytestmark = pytest.mark.torch

REAL = torch.tensor([1000.0, 0.0, float("inf"), float("nan")])
WHOLE = torch.arange(200)


@pytest.mark.parametrize(
    "found", [REAL, REAL + 1, torch.where(REAL == 0, 1e-3, REAL)], ids=["same", "near", "tiny"]
)
def test_errors_of_rounding_are_none(found):
    assert disagreement([found], [REAL]) is None


@pytest.mark.parametrize(
    ("found", "odd"), [(REAL * 1.1, 1), (REAL.nan_to_num(), 2), (REAL * 0 + 1000, 2)]
)
def test_other_values_are_told(found, odd):
    told = f"{odd} of 4 values of output 1 differ"
    assert disagreement([REAL, found], [REAL, REAL]) == told


def test_a_whole_number_next_to_a_limit_may_differ_and_many_may_not():
    assert disagreement([WHOLE.clamp(max=198)], [WHOLE]) is None
    assert disagreement([WHOLE.clamp(max=100)], [WHOLE]) == "99 of 200 values of output 0 differ"
    assert disagreement([torch.tensor(1)], [torch.tensor(2)]) is not None
