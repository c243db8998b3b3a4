"""Negatives: no known link, no self-pair, the right end kept, drawn evenly (METHOD 3, 7)."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from headtail.errors import ConfigError
from headtail.graph.csr import CSR
from headtail.graph.view import GraphView
from headtail.sampling.batches import Positives
from headtail.sampling.negatives import (
    NEGATIVES,
    REDRAWS,
    Negatives,
    NegativeSpace,
    draw_negatives,
    proposals_needed,
    random_entry,
)
from random_graphs import as_links, as_pairs, dense, random_view, star, views

KINDS = pytest.mark.parametrize("kind", sorted(NEGATIVES))
REVERSED = pytest.mark.parametrize("rows_are_tails", [False, True])


def positives_of(known: CSR, rows: list[int], with_candidates: bool = True) -> Positives:
    """All links of the given rows, as a row-wise batch has them."""
    owner, entry = known.entries_of(torch.tensor(rows))
    chosen = torch.tensor(rows)
    return Positives(chosen[owner], known.col[entry], chosen if with_candidates else None)


def draw(
    kind: str, known: CSR, positives: Positives, count: int = 1, rows_are_tails: bool = False, seed: int = 0
) -> Negatives:
    space = NegativeSpace(known, rows_are_tails)
    return draw_negatives(kind, space, positives, count, torch.Generator().manual_seed(seed))


def ring(nodes: int) -> GraphView:
    """Returns links from every node to three that follow it, so that each has two near negatives either way."""
    links = [(node, (node + step) % nodes) for node in range(nodes) for step in (1, 2, 4)]
    return GraphView(nodes, True, as_links(links))


def pairs(negatives: Negatives) -> list[tuple[int, int]]:
    return list(zip(negatives.row.tolist(), negatives.col.tolist(), strict=True))


def evenness(counts: torch.Tensor) -> float:
    """The probability that an even draw is at least as uneven as these counts."""
    expected = counts.double().mean()
    return float(chi2.sf(float(((counts - expected) ** 2 / expected).sum()), counts.numel() - 1))


@KINDS
@REVERSED
@pytest.mark.parametrize("with_candidates", [True, False])
@given(views(), st.integers(1, 5))
def test_no_known_link_and_no_self_pair(
    kind: str, rows_are_tails: bool, with_candidates: bool, view: GraphView, count: int
) -> None:
    known = view.in_rows if rows_are_tails else view.out_rows
    positives = positives_of(known, list(range(0, view.num_nodes, 2)), with_candidates)
    negatives = draw(kind, known, positives, count, rows_are_tails)
    links = set(zip(known.row.tolist(), known.col.tolist(), strict=True))
    assert not links.intersection(pairs(negatives))
    assert all(row != col for row, col in pairs(negatives))
    assert negatives.row.shape == negatives.col.shape == negatives.positive.shape
    assert negatives.positive.numel() <= count * positives.row.numel()


@KINDS
@REVERSED
@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_positive_gets_as_many_as_asked(kind: str, rows_are_tails: bool, count: int) -> None:
    view = ring(60) if kind == "near" else random_view(60, 90)  # not every row of a random graph has one near it
    known = view.in_rows if rows_are_tails else view.out_rows
    positives = positives_of(known, list(range(30)))
    negatives = draw(kind, known, positives, count, rows_are_tails)
    assert torch.bincount(negatives.positive).tolist() == [count] * positives.row.numel()


def test_tail_keeps_the_head() -> None:
    known = random_view(40, 100).out_rows
    positives = positives_of(known, [0, 3, 5, 8])
    negatives = draw("tail", known, positives, 3)
    assert torch.equal(negatives.row, positives.row[negatives.positive])


def test_reversed_tail_keeps_the_column_and_draws_rows_of_the_batch() -> None:
    known = random_view(40, 100).in_rows  # rows are tails, columns heads
    rows = [0, 3, 5, 8, 38, 39]  # the last two have no links
    positives = positives_of(known, rows)
    negatives = draw("tail", known, positives, 3, rows_are_tails=True)
    assert torch.equal(negatives.col, positives.col[negatives.positive])
    assert set(negatives.row.tolist()) <= set(rows)
    assert set(negatives.row.tolist()) - set(positives.row.tolist())  # rows without links serve too


@REVERSED
def test_uniform_draws_rows_of_the_batch_and_any_column(rows_are_tails: bool) -> None:
    known = random_view(40, 100).out_rows
    rows = [0, 3, 39]
    negatives = draw("uniform", known, positives_of(known, rows), 30, rows_are_tails)
    assert set(negatives.row.tolist()) == set(rows)
    assert len(set(negatives.col.tolist())) > 35


def test_edge_wise_negatives_draw_any_row() -> None:
    known = random_view(40, 100).out_rows
    negatives = draw("uniform", known, positives_of(known, [0, 3], with_candidates=False), 40)
    assert len(set(negatives.row.tolist())) > 35


@KINDS
def test_a_head_that_is_linked_to_all_gets_none(kind: str) -> None:
    known = star(9).out_rows
    negatives = draw(kind, known, positives_of(known, [0]), 2)
    assert negatives.row.numel() == negatives.positive.numel() == 0


def test_a_head_that_is_linked_to_almost_all_gets_the_rest() -> None:
    links = [(0, tail) for tail in range(1, 9)]  # node 9 is free
    known = GraphView(10, True, as_links(links)).out_rows
    negatives = draw("tail", known, positives_of(known, [0]), 25)
    assert set(pairs(negatives)) == {(0, 9)}
    assert negatives.row.numel() > 150  # of 200, those that 21 draws found


def test_dense_neighbours_of_sparse_heads_do_not_disturb_them() -> None:
    links = [(0, tail) for tail in range(1, 30)] + [(1, 2)]
    known = GraphView(30, True, as_links(links)).out_rows
    positives = positives_of(known, [0, 1])
    negatives = draw("tail", known, positives, 10)
    assert negatives.row.tolist() == [1] * 10
    assert set(negatives.positive.tolist()) == {29}


def test_tails_are_uniform_over_the_unlinked_ones() -> None:
    known = random_view(12, 30).out_rows
    head = int(known.degrees.argmax())
    negatives = draw("tail", known, positives_of(known, [head]), 3000)
    linked = set(known.col[known.row_ptr[head] : known.row_ptr[head + 1]].tolist()) | {head}
    free = [node for node in range(12) if node not in linked]
    assert evenness(torch.bincount(negatives.col, minlength=12)[free]) > 1e-3


def test_pairs_are_uniform_over_the_unlinked_ones_of_the_batch() -> None:
    known = random_view(10, 20).out_rows
    rows = [0, 1, 5, 9]
    negatives = draw("uniform", known, positives_of(known, rows), 2000)
    counts = torch.zeros(10, 10)
    counts.index_put_((negatives.row, negatives.col), torch.ones(negatives.row.numel()), accumulate=True)
    linked = set(zip(known.row.tolist(), known.col.tolist(), strict=True))
    free = [(row, col) for row in rows for col in range(10) if row != col and (row, col) not in linked]
    assert float(counts.sum()) == sum(float(counts[cell]) for cell in free)
    assert evenness(torch.stack([counts[cell] for cell in free])) > 1e-3


def test_reversed_rows_are_uniform_over_the_batch() -> None:
    known = GraphView(8, True, as_links([(0, 7), (1, 7)])).out_rows
    negatives = draw("tail", known, positives_of(known, [0, 1, 2, 3, 4]), 2000, rows_are_tails=True)
    assert set(negatives.col.tolist()) == {7}
    assert evenness(torch.bincount(negatives.row, minlength=8)[[2, 3, 4]]) > 1e-3
    assert set(negatives.row.tolist()) == {2, 3, 4}


@REVERSED
def test_popular_keeps_the_row_and_draws_columns_by_their_links(rows_are_tails: bool) -> None:
    links = [(row, col) for row, col in as_pairs(random_view(20, 60).links) if row > 2] + [(0, 5)]
    known = GraphView(20, True, as_links(links)).out_rows
    positives = positives_of(known, [0])
    negatives = draw("popular", known, positives, 4000, rows_are_tails)
    assert set(negatives.row.tolist()) == {0}
    popular = torch.bincount(known.col, minlength=20)
    popular[[0, 5]] = 0  # itself, and its known tail
    counts = torch.bincount(negatives.col, minlength=20)
    assert (counts[popular == 0] == 0).all()
    assert int(popular.max()) > 4 * int(popular[popular > 0].min())
    expected = popular[popular > 0] / popular.sum() * counts.sum()
    statistic = float(((counts[popular > 0] - expected) ** 2 / expected).sum())
    assert chi2.sf(statistic, expected.numel() - 1) > 1e-3


@REVERSED
def test_near_draws_what_three_steps_reach_and_as_often(rows_are_tails: bool) -> None:
    view = random_view(14, 40)
    known = view.in_rows if rows_are_tails else view.out_rows
    a = dense(known)
    # One of the row's columns, one of its rows, one of that one's columns.
    walk = (a / a.sum(axis=1, keepdims=True).clip(1)) @ (a.T / a.sum(axis=0)[:, None].clip(1))
    walk = walk @ (a / a.sum(axis=1, keepdims=True).clip(1))
    walk[(a > 0) | np.eye(14, dtype=bool)] = 0
    checked = 0
    for row in range(14):
        positives = positives_of(known, [row])
        if not positives.row.numel():
            continue
        negatives = draw("near", known, positives, 2000 // positives.row.numel(), rows_are_tails)
        assert set(negatives.row.tolist()) <= {row}
        counts = torch.bincount(negatives.col, minlength=14).numpy()
        reached = walk[row] > 0
        assert (counts[~reached] == 0).all()
        if reached.sum() > 1:
            expected = walk[row][reached] / walk[row].sum() * counts.sum()
            checked += 1
            assert chi2.sf(((counts[reached] - expected) ** 2 / expected).sum(), reached.sum() - 1) > 1e-4
    assert checked > 5


def test_a_row_with_nothing_near_gets_none() -> None:
    known = GraphView(6, True, as_links([(0, 1), (2, 3), (2, 4), (5, 3)])).out_rows
    negatives = draw("near", known, positives_of(known, [0, 2, 5]), 10)
    assert set(pairs(negatives)) == {(5, 4)}
    assert set(negatives.positive.tolist()) == {3}


def test_a_random_entry_is_any_of_its_row() -> None:
    known = random_view(12, 40).out_rows
    row = int(known.degrees.argmax())
    found = random_entry(known, torch.full((4000,), row), torch.Generator().manual_seed(0))
    columns = known.col[known.row_ptr[row] : known.row_ptr[row + 1]]
    counts = torch.bincount(found, minlength=12)
    assert int(counts[columns].sum()) == 4000
    assert evenness(counts[columns]) > 1e-3


@KINDS
def test_the_seed_decides(kind: str) -> None:
    known = random_view(40, 100).out_rows
    positives = positives_of(known, [0, 1, 2, 3])
    first, again, other = (pairs(draw(kind, known, positives, 3, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@KINDS
def test_no_positives_no_negatives(kind: str) -> None:
    known = star(4).out_rows
    assert draw(kind, known, positives_of(known, [1, 2])).row.numel() == 0


def test_unknown_kind_names_the_nearest() -> None:
    known = star(4).out_rows
    with pytest.raises(ConfigError, match="did you mean 'uniform'"):
        draw("unifrom", known, positives_of(known, [0]))


@KINDS
def test_negatives_on_every_device(kind: str, device: torch.device) -> None:
    known = ring(40).out_rows.to(device)
    owner, entry = known.entries_of(torch.arange(20, device=device))
    positives = Positives(owner, known.col[entry], torch.arange(20, device=device))
    generator = torch.Generator(device=device).manual_seed(0)
    negatives = draw_negatives(kind, NegativeSpace(known), positives, 3, generator)
    assert negatives.row.device.type == negatives.positive.device.type == device.type
    assert negatives.row.numel() == 3 * positives.row.numel()
    assert not known.contains(negatives.row, negatives.col).any()


def test_as_many_proposals_as_the_longest_row_asks_for() -> None:
    """All proposals of a row with a share p of known links fail with p^n."""
    few = CSR.from_links(torch.tensor([[0, 0, 1], [1, 2, 3]]), 1000)  # three of a thousand, the node itself included
    assert proposals_needed("tail", NegativeSpace(few)) == 5  # 0.003^5 < 1e-12 < 0.003^4
    back = NegativeSpace(CSR.from_links(torch.tensor([list(range(400)), [999] * 400]), 1000), rows_are_tails=True)
    assert proposals_needed("tail", back) == 1 + REDRAWS
    assert proposals_needed("uniform", back) == 5
    half = CSR.from_links(torch.cartesian_prod(torch.arange(20), torch.arange(10)).T, 20)
    assert proposals_needed("uniform", NegativeSpace(half)) == 1 + REDRAWS
    assert proposals_needed("popular", NegativeSpace(few)) == 1 + REDRAWS
    everything = CSR.from_links(torch.cartesian_prod(torch.arange(3), torch.arange(3)).T, 3)
    assert proposals_needed("tail", NegativeSpace(everything)) == 1 + REDRAWS
