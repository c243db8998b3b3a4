"""Sparse rows against SciPy and plain Python."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.view import GraphView, both_ways
from random_graphs import as_links, as_pairs, dense, random_view, views

ROWS, COLS = 7, 5
pair_lists = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLS - 1)), max_size=30)


def weighted(pairs: list[tuple[int, int]]) -> CSR:
    csr = CSR.from_links(as_links(pairs), ROWS, COLS)
    return csr.with_weight(torch.linspace(-1, 2, csr.col.numel()))


@given(pair_lists)
def test_rows_are_sorted_and_free_of_duplicates(pairs: list[tuple[int, int]]) -> None:
    csr = CSR.from_links(as_links(pairs), ROWS, COLS)
    assert (csr.num_rows, csr.num_cols) == (ROWS, COLS)
    assert list(zip(csr.row.tolist(), csr.col.tolist(), strict=True)) == sorted(set(pairs))
    assert csr.degrees.tolist() == [len({b for a, b in pairs if a == row}) for row in range(ROWS)]


@given(pair_lists)
def test_contains_answers_for_every_cell(pairs: list[tuple[int, int]]) -> None:
    csr = CSR.from_links(as_links(pairs), ROWS, COLS)
    cells = [(a, b) for a in range(ROWS) for b in range(COLS)]
    rows, cols = as_links(cells)
    assert csr.contains(rows, cols).tolist() == [cell in pairs for cell in cells]


@given(pair_lists, st.lists(st.integers(0, ROWS - 1), max_size=10))
def test_entries_of_lists_rows_in_the_order_asked(pairs: list[tuple[int, int]], rows: list[int]) -> None:
    csr = CSR.from_links(as_links(pairs), ROWS, COLS)
    owner, entry = csr.entries_of(torch.tensor(rows, dtype=torch.int64))
    found = list(zip(owner.tolist(), csr.col[entry].tolist(), strict=True))
    wanted = [(place, col) for place, row in enumerate(rows) for a, col in sorted(set(pairs)) if a == row]
    assert found == wanted


@given(pair_lists)
def test_transpose_exchanges_rows_and_columns(pairs: list[tuple[int, int]]) -> None:
    csr = weighted(pairs)
    turned = csr.transpose()
    np.testing.assert_array_equal(dense(turned), dense(csr).T)
    assert list(zip(turned.row.tolist(), turned.col.tolist(), strict=True)) == sorted((b, a) for a, b in set(pairs))


@given(pair_lists, st.integers(0, ROWS), st.integers(0, ROWS))
def test_blocks_are_slices(pairs: list[tuple[int, int]], a: int, b: int) -> None:
    first, last = min(a, b), max(a, b)
    csr = weighted(pairs)
    np.testing.assert_array_equal(dense(csr.block(first, last)), dense(csr)[first:last])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weigh", [True, False])
@given(pair_lists)
def test_product_equals_scipy(weigh: bool, dtype: torch.dtype, pairs: list[tuple[int, int]]) -> None:
    csr = weighted(pairs) if weigh else CSR.from_links(as_links(pairs), ROWS, COLS)
    x = torch.randn(COLS, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
    product = csr.matmul(x)
    assert product.dtype == dtype
    np.testing.assert_allclose(product.numpy(), dense(csr) @ x.double().numpy(), atol=1e-5)


def test_product_on_every_device(device: torch.device) -> None:
    csr = random_view(50, 300).out_rows
    x = torch.randn(50, 8)
    found = csr.to(device).matmul(x.to(device)).cpu()
    torch.testing.assert_close(found, torch.from_numpy(dense(csr)).float() @ x)


def test_an_entry_that_is_listed_twice_counts_twice() -> None:
    csr = CSR(torch.tensor([0, 2]), torch.tensor([1, 1]), 2, torch.tensor([0.25, 0.5]))
    assert csr.matmul(torch.tensor([[1.0], [4.0]])).item() == 3.0


@given(views())
def test_views_show_links_in_their_orientations(view: GraphView) -> None:
    links = set(as_pairs(view.links))
    backward = {(b, a) for a, b in links}

    def cells(csr: CSR) -> set[tuple[int, int]]:
        return set(zip(csr.row.tolist(), csr.col.tolist(), strict=True))

    assert cells(view.out_rows) == (links if view.directed else links | backward)
    assert cells(view.in_rows) == (backward if view.directed else links | backward)
    assert cells(view.neighbours) == links | backward


def test_more_links_make_a_new_view() -> None:
    view = GraphView(4, True, as_links([(0, 1)]))
    more = view.with_links(as_links([(2, 3), (0, 1)]))
    assert as_pairs(view.links) == [(0, 1)]
    assert sorted(zip(more.out_rows.row.tolist(), more.out_rows.col.tolist(), strict=True)) == [(0, 1), (2, 3)]


def test_both_ways_turns_every_link() -> None:
    links: Tensor = as_links([(0, 1), (2, 1)])
    assert as_pairs(both_ways(links)) == [(0, 1), (2, 1), (1, 0), (1, 2)]
