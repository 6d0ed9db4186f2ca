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


def test_a_mask_hides_no_other_value():
    masked = torch.tensor([torch.finfo(torch.float32).min, -1e9, 1.0, 2.0])
    assert disagreement([masked * (1 - 1e-6)], [masked]) is None
    wrong = torch.tensor([masked[0], masked[1], 1.1, 2.0])
    assert disagreement([wrong], [masked]) == "1 of 4 values of output 0 differ"


def test_what_cancels_or_is_next_to_nothing_is_rounding():
    data = torch.tensor([-20.0, 3.0])
    small = torch.tensor([2e-9, -1e-7])
    assert disagreement([small * 0], [small], [data]) is None
    assert disagreement([small * 0], [small + 1e-3], [data]) is not None


def test_a_whole_number_next_to_a_limit_may_differ_and_many_may_not():
    assert disagreement([WHOLE.clamp(max=198)], [WHOLE]) is None
    assert disagreement([WHOLE.clamp(max=100)], [WHOLE]) == "99 of 200 values of output 0 differ"
    assert disagreement([torch.tensor(1)], [torch.tensor(2)]) is not None


def test_a_larger_error_that_is_allowed_is_none():
    wanted = torch.tensor([100.0, 1.0])
    found = wanted + torch.tensor([2.5, 0.0])
    assert disagreement([found], [wanted]) is not None
    assert disagreement([found], [wanted], max_relative_error=0.02) is None
    assert disagreement([found + 2], [wanted], max_relative_error=0.02) is not None
