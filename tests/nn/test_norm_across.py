"""Norms over ranks against the same norm over all rows in one process: values, statistics and every gradient."""

import pytest
import torch
from torch import Tensor, nn

from headtail.kernels.product import Product
from headtail.nn.norm import GraphNorm, batch_norm_relu, batch_norm_relu_dot
from headtail.nn.norm_across import moments_across
from headtail.ranks import ALONE, Ranks
from threads_as_ranks import on_ranks

# Rows of each rank: even, ragged, and some with none.
ROWS = [(4, 4), (7, 1, 3), (0, 5), (6, 0, 0, 2)]
DIM = 5


def parts(rows: tuple[int, ...], seed: int = 0, away: float = 0.0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return torch.split(away + torch.randn(sum(rows), DIM, generator=generator, dtype=torch.float64), list(rows))


def graph_norm() -> GraphNorm:
    norm = GraphNorm(DIM, momentum=0.3).double()
    with torch.no_grad():
        for tensor, seed in ((norm.alpha, 1), (norm.gamma, 2), (norm.beta, 3)):
            tensor.copy_(torch.randn(DIM, generator=torch.Generator().manual_seed(seed)))
    return norm


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("relu", "unit", "residual"), [(False, False, False), (True, True, True), (True, False, True)])
def test_graph_norm(rows: tuple[int, ...], relu: bool, unit: bool, residual: bool) -> None:
    xs, befores, weights = parts(rows, 0, away=3.0), parts(rows, 1), parts(rows, 2)

    def work(ranks: Ranks, x: Tensor, before: Tensor, weight: Tensor) -> list[Tensor]:
        norm = graph_norm()
        norm.ranks = ranks
        x, before = x.clone().requires_grad_(), before.clone().requires_grad_()
        y = norm.finish(x, before if residual else None, relu, unit)
        (y * weight).sum().backward()
        of_before = torch.zeros_like(before) if before.grad is None else before.grad
        assert x.grad is not None
        own = [y.detach(), x.grad, of_before]
        shared = [parameter.grad for parameter in norm.parameters() if parameter.grad is not None]
        return [*own, *map(ranks.sum, shared), norm.running_mean, norm.running_spread]

    alone = work(ALONE, torch.cat(xs), torch.cat(befores), torch.cat(weights))
    found = on_ranks(len(rows), lambda ranks: work(ranks, *(p[ranks.rank] for p in (xs, befores, weights))))
    for place, wanted in enumerate(alone):
        got = [each[place] for each in found]
        if place < 3:  # rows, of which each rank has its own
            torch.testing.assert_close(torch.cat(got), wanted)
        else:  # what all have
            assert all(torch.equal(each, got[0]) for each in got)
            torch.testing.assert_close(got[0], wanted)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dot", [False, True])
def test_batch_norm(rows: tuple[int, ...], dot: bool) -> None:
    xs, weights = parts(rows, 0, away=-2.0), parts(rows, 2)

    def work(ranks: Ranks, x: Tensor, weight: Tensor) -> list[Tensor]:
        norm = nn.BatchNorm1d(DIM, dtype=torch.float64)
        linear, last = nn.Linear(DIM, DIM, dtype=torch.float64), nn.Linear(DIM, 1, dtype=torch.float64)
        with torch.no_grad():
            last.weight.copy_(torch.randn(1, DIM, generator=torch.Generator().manual_seed(5)))
            last.bias.fill_(-0.25)
            linear.weight.copy_(torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(4)))
            linear.bias.fill_(0.5)
        x = x.clone().requires_grad_()
        product = Product((x,), ((linear.weight,),), (linear.bias,))
        if dot:
            y = batch_norm_relu_dot(norm, product, last, None, ranks)[:, None].expand(-1, DIM)
        else:
            y = batch_norm_relu(norm, product, None, ranks)
        (y * weight).sum().backward()
        assert x.grad is not None
        shared = [
            p.grad for p in (norm.weight, norm.bias, *linear.parameters(), *last.parameters()) if p.grad is not None
        ]
        assert norm.running_mean is not None
        assert norm.running_var is not None
        return [y.detach(), x.grad, *map(ranks.sum, shared), norm.running_mean, norm.running_var]

    alone = work(ALONE, torch.cat(xs), torch.cat(weights))
    found = on_ranks(len(rows), lambda ranks: work(ranks, xs[ranks.rank], weights[ranks.rank]))
    for place, wanted in enumerate(alone):
        got = [each[place] for each in found]
        torch.testing.assert_close(torch.cat(got) if place < 2 else got[0], wanted, atol=1e-9, rtol=1e-7)


def test_a_large_mean_costs_no_digits() -> None:
    rows = (100, 3, 0)
    xs = [x.float() for x in parts(rows, 0, away=1e4)]
    found = on_ranks(3, lambda ranks: moments_across(ranks, xs[ranks.rank], torch.ones(rows[ranks.rank], 1)))
    exact = torch.cat(xs).double()
    for mean, variance, count in found:
        torch.testing.assert_close(mean.double(), exact.mean(dim=0), rtol=1e-6, atol=0)
        torch.testing.assert_close(variance.double(), exact.var(dim=0, correction=0), rtol=1e-3, atol=0)
        assert count == 103


def test_rows_that_two_ranks_have_count_once() -> None:
    x, weight = (part[0] for part in (parts((9,), 0, away=2.0), parts((9,), 1)))
    # The first rank has the rows 0 … 5, the second 3 … 8.
    places, shares = (slice(0, 6), slice(3, 9)), torch.tensor([1.0, 1, 1, 0.5, 0.5, 0.5, 1, 1, 1])

    def work(ranks: Ranks, rows: slice, loss_of: slice, shares: Tensor | None) -> tuple[Tensor, Tensor]:
        norm = graph_norm()
        norm.ranks = ranks
        own = x[rows].clone().requires_grad_()
        y = norm.finish(own, None, relu=True, unit=True, count=shares)
        (y * weight[rows])[loss_of].sum().backward()
        assert own.grad is not None
        found = torch.zeros_like(x)
        found[rows] = own.grad
        assert norm.gamma.grad is not None
        return ranks.sum(found), ranks.sum(norm.gamma.grad)

    alone = work(ALONE, slice(0, 9), slice(None), None)
    # Each rank takes the loss of the rows that are its own alone, or the first's.
    loss_of = slice(None), slice(3, None)
    found = on_ranks(2, lambda r: work(r, places[r.rank], loss_of[r.rank], shares[places[r.rank]]))
    for got in found:
        for one, wanted in zip(got, alone, strict=True):
            torch.testing.assert_close(one, wanted)
