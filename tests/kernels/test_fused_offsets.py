"""Draws of the fused kernel are those of the reference, number by number."""

import pytest
import torch
from fused_case import DEVICE, needs_kernels

from headtail.kernels.offsets import distinct_offsets, floyd


@needs_kernels
@pytest.mark.parametrize("count", [1, 2, 4, 14, 33])
@pytest.mark.parametrize("rows", [0, 1, 70, 300])
def test_equal_to_the_reference(rows: int, count: int) -> None:
    generator = torch.Generator().manual_seed(rows + count)
    degrees = torch.randint(0, 3 * count, (rows,), generator=generator)  # none, fewer and more than are drawn
    uniform = torch.rand(rows, count, generator=generator, dtype=torch.float64)
    order = torch.rand(rows, count, generator=generator)
    from headtail.kernels import offsets_triton

    found = offsets_triton.distinct_offsets(degrees.to(DEVICE), uniform.to(DEVICE), order.to(DEVICE))
    assert torch.equal(found.cpu(), floyd(degrees, uniform, order))


@needs_kernels
def test_every_entry_is_drawn_as_often() -> None:
    generator = torch.Generator(device=DEVICE).manual_seed(0)
    drawn = distinct_offsets(torch.full((4000,), 10, device=DEVICE), 3, generator)
    assert bool((drawn.sort(dim=1).values.diff(dim=1) > 0).all())
    expected = 4000 / 10
    for column in range(3):  # in every place, not only over all of them
        counts = torch.bincount(drawn[:, column].cpu(), minlength=10)
        assert float(((counts - expected).square() / expected).sum()) < 28  # 99.9 % of χ² with 9 degrees of freedom
