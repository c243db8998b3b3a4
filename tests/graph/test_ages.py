"""How new links are, against loops over links; and what remains of it without the link that is asked about."""

import numpy as np
import pytest
import torch
from evidence_oracle import VIEWS, adjacency, all_pairs, dated_view, freshness

from headtail.graph.ages import FADING, Freshness, link_ages
from headtail.graph.view import GraphView
from random_graphs import as_links, dense

ASKED = pytest.mark.parametrize("view", [view for _, view in VIEWS], ids=[name for name, _ in VIEWS])


@ASKED
def test_age_is_the_share_of_newer_links(view: GraphView) -> None:
    assert view.times is not None
    times = view.times.tolist()
    wanted = [sum(other > time for other in times) / len(times) for time in times]
    assert link_ages(view).tolist() == pytest.approx(wanted)


def test_newest_and_oldest() -> None:
    view = GraphView(5, True, as_links([(0, 1), (1, 2), (2, 3), (3, 4)]), torch.tensor([30, 10, 30, -20]))
    assert link_ages(view).tolist() == [0, 0.5, 0, 0.75]


@ASKED
def test_entries_fade_with_age_and_the_newer_of_two_counts(view: GraphView) -> None:
    rows = view.neighbours
    found = Freshness(rows, view).of_entry
    np.testing.assert_allclose(dense(rows.with_weight(found)), freshness(view), rtol=1e-5, atol=1e-7)


def test_of_two_links_the_newer_counts() -> None:
    view = GraphView(4, True, as_links([(0, 1), (1, 0), (2, 3)]), torch.tensor([1, 9, 5]))
    fresh = Freshness(view.neighbours, view)
    assert fresh.of_entry.tolist() == pytest.approx([1, 1, *[float(np.exp(-1 / 3 / FADING))] * 2])


@ASKED
def test_activity_without_the_other_end(view: GraphView) -> None:
    heads, tails = all_pairs(view)
    everywhere = torch.ones_like(heads, dtype=torch.bool)
    total, most = Freshness(view.neighbours, view).without(heads, tails, everywhere)
    fresh = freshness(view)
    for place, (head, tail) in enumerate(zip(heads.tolist(), tails.tolist(), strict=True)):
        row = fresh[head].copy()
        row[tail] = 0
        assert float(total[place]) == pytest.approx(np.log1p(row.sum()), abs=1e-6)
        assert float(most[place]) == pytest.approx(row.max(), abs=1e-6)


@pytest.mark.parametrize("directed", [True, False])
def test_every_case_of_the_newest_entry_occurs(directed: bool) -> None:
    """The tests above are worth something only where rows have one newest entry, several, and one entry at all."""
    view = dated_view(18, 45, directed)
    fresh = freshness(view)
    newest = (np.isclose(fresh, fresh.max(axis=1, keepdims=True)) & (fresh > 0)).sum(axis=1)
    degree = (adjacency(view) + adjacency(view).T > 0).sum(axis=1)
    assert {0, 1} < set(newest.tolist())
    assert ((newest == 1) & (degree > 1)).any()
    assert ((newest > 1) & (degree > newest)).any()
