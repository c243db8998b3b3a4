"""Moments gathered block by block are those of all rows, also where the mean is large."""

import pytest
import torch

from headtail.kernels.finish import moments
from headtail.nn.norm import GraphNorm
from headtail.nn.statistics import ColumnMoments

ROWS, COLUMNS = 37, 4


@pytest.mark.parametrize("size", [1, 5, 36, ROWS])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_blocks_give_the_moments_of_all_rows(size: int, shift: float) -> None:
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)) + shift
    found = ColumnMoments()
    for block in torch.split(x, size):
        found.add(block)
    exact = x.double()
    torch.testing.assert_close(found.mean.double(), exact.mean(dim=0), rtol=1e-6, atol=1e-6)
    variance = exact.var(dim=0, correction=0)
    torch.testing.assert_close(found.squares.double() / found.rows, variance, rtol=1e-3, atol=1e-6)


def test_a_settled_norm_uses_them_for_any_rows() -> None:
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    norm = GraphNorm(COLUMNS, statistics="graph").eval()
    with torch.no_grad():
        norm.alpha.copy_(torch.tensor([0.3, 1.0, 2.0, -1.0]))
        wanted = norm(x)
        found = ColumnMoments()
        found.add(x)
        found.settle(norm)
        torch.testing.assert_close(norm(x[3:9]), wanted[3:9])
    torch.testing.assert_close(norm.running_spread, moments(x, norm.alpha.detach())[1])
