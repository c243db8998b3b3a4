"""Gathers and sums over sparse rows: values against dense matrices, gradients by finite differences."""

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.view import GraphView
from headtail.nn.sparse import aggregate, pair_product
from headtail.sampling.places import PairPlaces
from random_graphs import dense, random_view, views


def block() -> CSR:
    """A rectangular block with an empty row, a place listed twice and columns that nothing reads."""
    return CSR(torch.tensor([0, 3, 3, 5]), torch.tensor([0, 2, 2, 1, 0]), 4)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@given(views())
def test_aggregate_equals_the_dense_product(view: GraphView) -> None:
    csr = view.out_rows
    csr = csr.with_weight(torch.linspace(-1, 1, csr.col.numel()))
    x = numbers(view.num_nodes, 3).detach()
    np.testing.assert_allclose(aggregate(csr, x).numpy(), dense(csr) @ x.numpy(), atol=1e-9)


@pytest.mark.parametrize("make", [block, lambda: random_view(8, 15).neighbours], ids=["block", "graph"])
def test_gradients_of_aggregate(make: object) -> None:
    csr = make()  # type: ignore[operator]
    x, weighted = numbers(csr.num_cols, 3), csr.with_weight(numbers(csr.col.numel(), seed=1).detach())
    assert torch.autograd.gradcheck(lambda a: aggregate(weighted, a), (x,))
    assert torch.autograd.gradcheck(lambda a: aggregate(csr, a), (x,))


def test_pair_product_and_its_gradients() -> None:
    u, v = numbers(4, 3), numbers(6, 3, seed=1)
    pairs = torch.tensor([[0, 3, 3, 0, 2], [5, 5, 1, 5, 0]])  # rows used twice, rows never used
    assert torch.equal(pair_product(u, v, PairPlaces(pairs)), u[pairs[0]] * v[pairs[1]])
    assert torch.autograd.gradcheck(lambda a, b: pair_product(a, b, PairPlaces(pairs)), (u, v))


def test_pair_product_of_a_table_with_itself() -> None:
    u = numbers(4, 3)
    pairs = torch.tensor([[0, 3, 2], [0, 1, 3]])
    assert torch.autograd.gradcheck(lambda a: pair_product(a, a, PairPlaces(pairs)), (u,))


def test_pairs_are_grouped_by_either_end_in_their_order(device: torch.device) -> None:
    places = PairPlaces(torch.tensor([[2, 0, 2, 5], [1, 1, 0, 1]], device=device))
    by_left, by_right = places.by_left(6), places.by_right(2)
    assert by_left.row_ptr.tolist() == [0, 1, 1, 3, 3, 3, 4]
    assert by_left.col.tolist() == [1, 0, 2, 3]
    assert by_right.row_ptr.tolist() == [0, 1, 4]
    assert by_right.col.tolist() == [2, 0, 1, 3]
    assert places.by_left(6) is by_left
