"""Paths of three links against dense products, with and without hubs, whole and sampled."""

import numpy as np
import pytest
import torch
from evidence_oracle import VIEWS, adjacency, all_pairs, hub_view, paths, shares, without_link

from headtail.graph import pairs as pairs_module
from headtail.graph import paths as module
from headtail.graph.pairs import Pairs
from headtail.graph.paths import ShortPaths
from headtail.graph.view import GraphView
from random_graphs import as_links, dense, random_view

ASKED = pytest.mark.parametrize("view", [view for _, view in VIEWS], ids=[name for name, _ in VIEWS])
DIRECTED = pytest.mark.parametrize("directed", [True, False])


def weights(view: GraphView) -> np.ndarray:
    heads, tails = all_pairs(view)
    return ShortPaths.build(view).weigh(Pairs(view, heads, tails)).numpy()


def wanted(view: GraphView, share: np.ndarray) -> list[float]:
    """By definition: the pair's own link is removed, the shares of all other nodes stay what they are."""
    heads, tails = all_pairs(view)
    pairs = zip(heads.tolist(), tails.tolist(), strict=True)
    return [float(np.expm1(paths(without_link(view, *pair), *pair, share)[0])) / 100 for pair in pairs]


@ASKED
@pytest.mark.parametrize("per_link", [40, 3, 1, 0.5, 0])
def test_weights_by_definition(view: GraphView, per_link: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_PER_LINK", per_link)
    share = shares(view, per_link)
    built = ShortPaths.build(view)
    np.testing.assert_allclose(built.share.numpy(), share, rtol=1e-6)
    np.testing.assert_allclose(weights(view), wanted(view, share), rtol=1e-5, atol=1e-6)


@DIRECTED
def test_hubs_are_left_out_and_others_kept(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_PER_LINK", 3)
    share = ShortPaths.build(hub_view(directed)).share
    assert share[0] == 0
    assert (share[2:] > 0).all()


@DIRECTED
def test_the_limit_in_all_counts_too(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    view = hub_view(directed)
    monkeypatch.setattr(module, "MOST_PAIRS", 20)
    entries = int(adjacency(view).sum())
    np.testing.assert_allclose(ShortPaths.build(view).share.numpy(), shares(view, 20 / entries), rtol=1e-6)


@DIRECTED
@pytest.mark.parametrize("block", [1, 7, 50])
def test_blocks_do_not_change_what_is_built(directed: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    view = random_view(20, 60, directed)
    whole = ShortPaths.build(view)
    monkeypatch.setattr(module, "BLOCK_PAIRS", block)
    cut = ShortPaths.build(view)
    assert torch.equal(cut.shared.col, whole.shared.col)
    assert torch.equal(cut.shared.row_ptr, whole.shared.row_ptr)
    torch.testing.assert_close(cut.shared.weight, whole.shared.weight)


@DIRECTED
def test_shared_tails_are_weighed_and_symmetric(directed: bool) -> None:
    view = random_view(20, 60, directed)
    a = adjacency(view)
    product = (a * shares(view)) @ a.T
    np.fill_diagonal(product, 0)
    np.testing.assert_allclose(dense(ShortPaths.build(view).shared), product, atol=1e-6)


@DIRECTED
@pytest.mark.parametrize("most", [1, 3, 6])
def test_a_sampled_row_keeps_nothing_of_its_own_link(
    directed: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All heads of a hub have no other tail: there is no path but those by the link itself, which must not show."""
    links = [(head, 0) for head in range(1, 14)]
    view = GraphView(15, directed, as_links(links))
    monkeypatch.setattr(pairs_module, "MOST_ENTRIES", most)
    heads, tails = as_links(links)
    assert ShortPaths.build(view).weigh(Pairs(view, heads, tails)).max() < 1e-6


@DIRECTED
def test_a_sample_stands_for_all_heads(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every head of a hub shares as much with the head asked about, a sample of them says the same as all."""
    friends = range(2, 14)
    view = GraphView(16, directed, as_links([(k, 0) for k in friends] + [(k, 1) for k in friends] + [(14, 1)]))
    exact = weights(view)[14 * 16]
    assert exact == pytest.approx(12 / 13)
    monkeypatch.setattr(pairs_module, "MOST_ENTRIES", 5)
    assert weights(view)[14 * 16] == pytest.approx(exact)
