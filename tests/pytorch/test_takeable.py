"""Which calls TVM takes: views that somebody sees, in-place arithmetic, methods."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from tests.pytorch.compiling import compiled  # noqa: E402 - torch may be missing

pytestmark = [pytest.mark.torch, pytest.mark.slow(20)]


@torch.no_grad()
def test_a_view_of_an_input_is_one_to_who_writes_to_it(parts):
    def step(cache, x):
        row, y = cache[0], torch.tanh(torch.relu(x) + 1)
        torch._dynamo.graph_break()
        row.copy_(y)
        return y

    cache = torch.zeros(2, 8)
    wanted = compiled(step)(cache, torch.randn(8))
    torch.testing.assert_close(cache[0], wanted)
    assert len(parts) == 1


@torch.no_grad()
def test_results_that_share_memory_in_torch_do_so(parts, said):
    def both(x):
        y = torch.relu(x) + 1
        return y, y.flatten(1)

    one, other = compiled(both)(torch.randn(2, 3, 4))
    one.zero_()
    assert not other.any()
    assert len(parts) == 1
    assert said() == [
        "tvm_ios leaves 1 of 3 calls to torch: a view that is seen outside (1)",
    ]


@torch.no_grad()
def test_what_is_added_in_place_keeps_its_data_type():
    def added(x, y):
        z = torch.relu(x)
        z += y
        return torch.special.bessel_j0(z)

    x, y = torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64)
    torch.testing.assert_close(compiled(added)(x, y), added(x, y))


@torch.no_grad()
def test_masks_that_are_written_to_by_bits_are_taken(parts, said):
    def masked(x):
        mask = x > 0
        mask &= x < 1
        return torch.special.bessel_j0(x) * mask

    x = torch.randn(4, 5)
    torch.testing.assert_close(compiled(masked)(x), masked(x))
    assert "leaves 1 of 5 calls to torch: aten::special_bessel_j0 (1)" in said()[-1]
    assert len(parts) == 1


@torch.no_grad()
def test_bits_that_are_written_are_seen_by_views():
    def viewed(x):
        mask = x > 0
        seen = mask.view(-1)
        mask &= x < 1
        return seen.float() * 2

    x = torch.randn(4, 5)
    torch.testing.assert_close(compiled(viewed)(x), viewed(x))


@torch.no_grad()
def test_views_alone_are_no_part(parts):
    def viewed(x):
        return torch.special.bessel_j0(x.reshape(3, 4).transpose(0, 1)).flip(0)

    x = torch.randn(12)
    torch.testing.assert_close(compiled(viewed)(x), viewed(x))
    assert not parts


@torch.no_grad()
def test_methods_are_calls(parts):
    def three(x):
        return torch.special.bessel_j0(x).sigmoid().exp().tanh()

    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(three)(x), three(x))
    assert len(parts) == 1
