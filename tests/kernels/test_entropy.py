"""The fused cross-entropy of a padded batch against torch's."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels

from headtail.kernels.entropy import cross_entropy

pytestmark = needs_kernels


@pytest.mark.parametrize(
    ("positives", "pairs", "size"), [(3, 5, 9), (700, 1500, 2100), (0, 4, 6), (4, 4, 4), (1, 2, 2)]
)
def test_loss_and_gradient(positives: int, pairs: int, size: int) -> None:
    logits = 2 * torch.randn(size, generator=torch.Generator().manual_seed(0))
    wanted_at = logits.double().requires_grad_()
    parts = [-wanted_at[:positives], wanted_at[positives:pairs]]
    wanted = sum(torch.nn.functional.softplus(part).mean() for part in parts if part.numel())
    assert isinstance(wanted, torch.Tensor)
    wanted.backward()
    found_at = logits.to(DEVICE).requires_grad_()
    counts = (torch.tensor(count, device=DEVICE) for count in (positives, pairs))
    found = cross_entropy(found_at, *counts)
    (2 * found).backward()
    assert found_at.grad is not None
    assert wanted_at.grad is not None
    assert_close(found, wanted.detach(), 1e-5)
    assert_close(found_at.grad, 2 * wanted_at.grad, 1e-5)


def test_what_is_not_finite_shows() -> None:
    logits = torch.tensor([1.0, float("nan"), 0.5], device=DEVICE)
    counts = (torch.tensor(count, device=DEVICE) for count in (2, 3))
    assert not torch.isfinite(cross_entropy(logits, *counts))
    padding = torch.tensor([1.0, 0.5, float("nan")], device=DEVICE)
    counts = (torch.tensor(count, device=DEVICE) for count in (1, 2))
    assert torch.isfinite(cross_entropy(padding, *counts))


def test_large_scores_neither_overflow_nor_vanish() -> None:
    logits = torch.tensor([-200.0, 90.0, 100.0, -300.0], device=DEVICE, requires_grad=True)
    counts = (torch.tensor(count, device=DEVICE) for count in (2, 4))
    loss = cross_entropy(logits, *counts)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(200 / 2 + 100 / 2)
    assert logits.grad is not None
    assert logits.grad.tolist() == pytest.approx([-0.5, 0, 0.5, 0], abs=1e-6)
