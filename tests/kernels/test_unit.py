"""Fused unit rows against the reference in double precision."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels

from headtail.kernels.unit import unit_rows


@needs_kernels
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (33, 7), (200, 64)])
def test_values_and_gradients(shape: tuple[int, int], kind: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(shape, generator=generator).to(kind) for _ in range(2))
    exact = x.double().requires_grad_()
    wanted = unit_rows(exact)
    wanted.backward(grad.double())
    there = x.to(DEVICE).requires_grad_()
    found = unit_rows(there)
    found.backward(grad.to(DEVICE))
    assert found.dtype == kind
    assert there.grad is not None
    assert exact.grad is not None
    tolerance = 1e-5 if kind == torch.float32 else 1e-2
    assert_close(found, wanted, tolerance)
    if shape[1] > 1:  # a row of one number is ±1 whatever the number, so its gradient is rounding
        assert_close(there.grad, exact.grad, tolerance)


@needs_kernels
def test_a_row_of_zeros_stays_one() -> None:
    x = torch.zeros(2, 4, device=DEVICE, requires_grad=True)
    out = unit_rows(x)
    out.backward(torch.zeros_like(out))
    assert not float(out.detach().abs().sum())
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())
