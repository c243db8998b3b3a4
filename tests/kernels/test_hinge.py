"""The fused squared hinge of a padded batch against torch's."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels
from torch import Tensor

from headtail.kernels.hinge import squared_hinge

pytestmark = needs_kernels


def on_device(*counts: int) -> list[Tensor]:
    return [torch.tensor(count, device=DEVICE) for count in counts]


@pytest.mark.parametrize(
    ("positives", "negatives", "size"), [(3, 2, 9), (700, 800, 2100), (5, 2000, 2100), (4, 0, 4), (1, 1, 2)]
)
def test_loss_and_gradient(positives: int, negatives: int, size: int) -> None:
    """Positives have no negative, one, or many."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(size, generator=generator)
    of = torch.arange(size)
    of[positives : positives + negatives] = torch.randint(positives, (negatives,), generator=generator)
    wanted_at = logits.double().requires_grad_()
    ends = positives, positives + negatives
    shortfall = 1 - (wanted_at[of[slice(*ends)]] - wanted_at[slice(*ends)])
    wanted = shortfall.clamp(min=0).square().sum() / max(1, negatives)
    wanted.backward()
    found_at = logits.to(DEVICE).requires_grad_()
    found = squared_hinge(found_at, of.to(DEVICE), *on_device(*ends))
    (2 * found).backward()
    assert found_at.grad is not None
    assert wanted_at.grad is not None
    assert_close(found, wanted.detach(), 1e-5)
    assert_close(found_at.grad, 2 * wanted_at.grad, 1e-5)


def test_gradients_are_the_same_every_time() -> None:
    """Also where many negatives share a positive, whichever is added first."""
    logits = torch.randn(4096, device=DEVICE, requires_grad=True)
    of = torch.arange(4096, device=DEVICE) % 3

    def gradient() -> Tensor:
        (grad,) = torch.autograd.grad(squared_hinge(logits, of, *on_device(3, 4096)), logits)
        return grad

    first = gradient()
    assert all(torch.equal(first, gradient()) for _ in range(5))


def test_what_is_not_finite_shows() -> None:
    of = torch.tensor([0, 0, 2], device=DEVICE)
    for broken in ([float("nan"), 1.0, 0.5], [1.0, float("nan"), 0.5], [1.0, float("inf"), 0.5]):
        assert not torch.isfinite(squared_hinge(torch.tensor(broken, device=DEVICE), of, *on_device(1, 2)))
    padding = torch.tensor([1.0, 0.5, float("nan")], device=DEVICE)
    assert torch.isfinite(squared_hinge(padding, of, *on_device(1, 2)))


def test_far_below_its_negative_a_positive_has_a_bounded_gradient() -> None:
    logits = torch.tensor([-1e30, 1e3, 1e30, -1e3], device=DEVICE, requires_grad=True)
    squared_hinge(logits, torch.tensor([0, 1, 0, 1], device=DEVICE), *on_device(2, 4)).backward()
    assert logits.grad is not None
    assert float(logits.grad[0]) == -(2**20)
    assert logits.grad.tolist()[1::2] == [0, 0]
