"""Epochs visit every training link once, row by row or edge by edge (METHOD 3)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.graph.csr import CSR
from headtail.graph.view import GraphView
from headtail.sampling.batches import BATCHES, EdgeBatches, Positives, RowBatches
from random_graphs import as_links, random_view, star, views

KINDS = pytest.mark.parametrize("kind", sorted(BATCHES))


def epoch(kind: str, supervision: CSR, links_per_batch: int, seed: int = 0) -> list[Positives]:
    return list(BATCHES[kind](supervision, links_per_batch).epoch(torch.Generator().manual_seed(seed)))


def links_of(batches: list[Positives]) -> list[tuple[int, int]]:
    return [link for batch in batches for link in zip(batch.row.tolist(), batch.col.tolist(), strict=True)]


@KINDS
@given(views(), st.integers(1, 40))
def test_an_epoch_visits_each_link_exactly_once(kind: str, view: GraphView, links_per_batch: int) -> None:
    supervision = view.out_rows
    batches = epoch(kind, supervision, links_per_batch)
    assert len(batches) == len(BATCHES[kind](supervision, links_per_batch))
    wanted = zip(supervision.row.tolist(), supervision.col.tolist(), strict=True)
    assert sorted(links_of(batches)) == sorted(wanted)


@given(views(), st.integers(1, 40))
def test_every_node_is_a_row_once_and_brings_all_its_links(view: GraphView, links_per_batch: int) -> None:
    batches = epoch("rows", view.out_rows, links_per_batch)
    rows = [row for batch in batches if batch.candidates is not None for row in batch.candidates.tolist()]
    assert sorted(rows) == list(range(view.num_nodes))
    for batch in batches:
        assert batch.candidates is not None
        assert batch.row.numel() == int(view.out_rows.degrees[batch.candidates].sum())
        assert set(batch.row.tolist()) <= set(batch.candidates.tolist())


@pytest.mark.parametrize(("links_per_batch", "batches"), [(1, 80), (30, 11), (64, 5), (320, 1), (65_536, 1)])
def test_row_batches_have_about_the_rows_of_algorithm_1(links_per_batch: int, batches: int) -> None:
    view = GraphView(80, True, random_view(80, 320).links)  # B̃ = B·N/|E| = B/4 rows
    found = [batch.candidates.numel() for batch in epoch("rows", view.out_rows, links_per_batch)]  # type: ignore[union-attr]
    assert len(found) == batches
    assert max(found) - min(found) <= 1
    assert max(found) <= max(1, links_per_batch // 4 + 1) or batches == 1


@pytest.mark.parametrize(("links_per_batch", "batches"), [(1, 50), (7, 8), (50, 1), (49, 2), (65_536, 1)])
def test_edge_batches_are_at_most_the_size_asked_and_even(links_per_batch: int, batches: int) -> None:
    sizes = [batch.row.numel() for batch in epoch("edges", random_view(20, 50).out_rows, links_per_batch)]
    assert len(sizes) == batches
    assert max(sizes) <= links_per_batch
    assert max(sizes) - min(sizes) <= 1


def test_edge_batches_may_draw_any_node() -> None:
    assert all(batch.candidates is None for batch in epoch("edges", random_view().out_rows, 7))


@KINDS
def test_the_seed_decides_the_order(kind: str) -> None:
    supervision = random_view().out_rows
    first, again, other = (links_of(epoch(kind, supervision, 9, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_generator_that_goes_on_shuffles_anew(generator: torch.Generator) -> None:
    batches = RowBatches(random_view().out_rows, 9)
    assert links_of(list(batches.epoch(generator))) != links_of(list(batches.epoch(generator)))


def test_each_row_falls_into_each_batch_equally_often() -> None:
    batches = RowBatches(GraphView(6, True, as_links([(0, 1), (0, 2), (0, 3)])).out_rows, 1)
    counts = torch.zeros(6, 3)
    generator = torch.Generator().manual_seed(5)
    for _ in range(600):
        for number, batch in enumerate(batches.epoch(generator)):
            assert batch.candidates is not None
            counts[batch.candidates, number] += 1
    assert float(((counts - 200) ** 2 / 200).sum()) < 34.5  # χ² of 10 degrees of freedom, far beyond 99.9 %


def test_rows_without_links_form_batches_without_positives() -> None:
    sizes = [batch.row.numel() for batch in epoch("rows", star(30).out_rows, 5)]
    assert sorted(sizes) == [0] * 5 + [30]


def test_links_fewer_than_a_batch_are_one_batch() -> None:
    supervision = GraphView(3, True, as_links([(0, 1)])).out_rows
    assert len(RowBatches(supervision, 65_536)) == len(EdgeBatches(supervision, 65_536)) == 1


@pytest.mark.parametrize(
    ("links_per_batch", "at_least", "batches"),
    [
        (65_536, 1, 1),
        (65_536, 8, 8),
        (65_536, 7, 7),
        (10, 2, 8),
        (10, 8, 8),
        (10, 16, 16),
        (3, 8, 27),
        (65_536, 80, 80),
    ],
)
def test_few_links_are_dealt_into_several_batches(links_per_batch: int, at_least: int, batches: int) -> None:
    supervision = random_view(100, 80).out_rows
    for kind in BATCHES:
        source = BATCHES[kind](supervision, links_per_batch, at_least)
        # Where the links do not divide evenly there may be a batch more.
        assert batches <= len(source) <= batches + 1
        found = list(source.epoch(torch.Generator().manual_seed(0)))
        assert len(found) == len(source)
        assert sorted(links_of(found)) == sorted(zip(supervision.row.tolist(), supervision.col.tolist(), strict=True))


@KINDS
@given(views(), st.integers(1, 40), st.integers(1, 40))
def test_an_epoch_of_several_batches_visits_each_link_once(
    kind: str, view: GraphView, links_per_batch: int, at_least: int
) -> None:
    supervision = view.out_rows
    source = BATCHES[kind](supervision, links_per_batch, at_least)
    found = list(source.epoch(torch.Generator().manual_seed(0)))
    wanted = zip(supervision.row.tolist(), supervision.col.tolist(), strict=True)
    assert sorted(links_of(found)) == sorted(wanted)
    # As many as asked, as far as there are links, or rows, to deal.
    limit = supervision.num_rows if kind == "rows" else supervision.col.numel()
    assert len(found) == len(source) >= min(at_least, supervision.col.numel(), limit)
