"""Katz against powers of the dense adjacency, against counted walks, and on real graphs."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from method_case import NODES, random_pairs, random_view
from numpy.typing import NDArray

from headtail.baselines import heuristics, sparse
from headtail.baselines.heuristics import HEURISTICS, KATZ_WEIGHT
from headtail.graph.view import GraphView


def dense_adjacency(view: GraphView) -> NDArray[np.float64]:
    A = np.zeros((view.num_nodes, view.num_nodes))
    A[view.links[0], view.links[1]] = A[view.links[1], view.links[0]] = 1
    return A


def dense_katz(view: GraphView, weight: float) -> NDArray[np.float64]:
    A = dense_adjacency(view)
    return weight * A + weight**2 * A @ A + weight**3 * A @ A @ A


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("links", [0, 1, 20, 90, 300])
@pytest.mark.parametrize("seed", range(3))
def test_katz_equals_the_powers_of_the_adjacency(directed: bool, links: int, seed: int) -> None:
    view = random_view(directed, seed, links=links)
    scorer = HEURISTICS["katz"]().scorer(view)
    wanted = dense_katz(view, KATZ_WEIGHT)
    rows = scorer.score_rows(torch.arange(NODES), 0, NODES)
    np.testing.assert_allclose(rows.numpy(), wanted, rtol=1e-6, atol=0)
    heads, tails = random_pairs(seed)
    np.testing.assert_allclose(scorer.score_pairs(heads, tails).numpy(), wanted[heads, tails], rtol=1e-6, atol=0)


def test_katz_counts_walks_one_by_one() -> None:
    nodes = 7
    view = random_view(False, 4, nodes=nodes + 2, links=12)
    A = dense_adjacency(view)
    wanted = np.zeros((nodes, nodes))
    for length in (1, 2, 3):
        for walk in itertools.product(range(nodes), repeat=length + 1):
            if all(A[a, b] for a, b in itertools.pairwise(walk)):
                wanted[walk[0], walk[-1]] += KATZ_WEIGHT**length
    assert wanted.any()
    found = HEURISTICS["katz"]().scorer(view).score_rows(torch.arange(nodes), 0, nodes)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("weight", [0.5, 0.03])
def test_katz_takes_any_weight(monkeypatch: pytest.MonkeyPatch, weight: float) -> None:
    monkeypatch.setattr(heuristics, "KATZ_WEIGHT", weight)
    view = random_view(False)
    found = HEURISTICS["katz"]().scorer(view).score_rows(torch.arange(NODES), 0, NODES)
    np.testing.assert_allclose(found.numpy(), dense_katz(view, weight), rtol=1e-6, atol=0)


def test_equal_path_counts_tie_exactly() -> None:
    """Relabelled nodes get the very same scores, though their paths are added in another order."""
    view = random_view(False, links=300)
    label = torch.randperm(NODES, generator=torch.Generator().manual_seed(3))
    relabelled = GraphView(NODES, False, label[view.links])
    heads, tails = random_pairs()
    katz = HEURISTICS["katz"]()
    assert torch.equal(
        katz.scorer(view).score_pairs(heads, tails), katz.scorer(relabelled).score_pairs(label[heads], label[tails])
    )


def test_no_block_multiplies_more_rows_than_the_budget_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three-fold product is never formed whole: every block of left rows stays within the entries given."""
    view = random_view(False, links=300)
    scorer = HEURISTICS["katz"]().scorer(view)
    assert isinstance(scorer, sparse.ProductScorer)
    monkeypatch.setattr(sparse, "BLOCK_ENTRIES", 2000)
    seen: list[tuple[int, int]] = []
    original = scorer.left

    def watched(heads: NDArray[np.int64]) -> sparse.Matrix:
        rows = original(heads)
        seen.append((heads.size, rows.nnz))
        return rows

    monkeypatch.setattr(scorer, "left", watched)
    scorer.score_pairs(*random_pairs())
    assert len(seen) > 1
    assert all(entries <= 2000 for size, entries in seen if size > 1)
    bounds = scorer.left_entries(np.arange(NODES))
    assert (np.diff(original(np.arange(NODES)).indptr) <= bounds).all()


@pytest.mark.shared
@pytest.mark.parametrize("data", ["cit-hepph", "acl-collab"])
def test_katz_of_real_graphs_is_three_steps_of_a_vector(shared_data: Path, data: str) -> None:
    with np.load(shared_data / f"{data}.npz") as arrays:
        nodes, links = int(arrays["num_nodes"]), arrays["train"].astype(np.int64)
    half = scipy.sparse.coo_array((np.ones(links.shape[1]), (links[0], links[1])), shape=(nodes, nodes))
    A = ((half + half.T).tocsr() > 0).astype(np.float64)
    heads = links[0, :: links.shape[1] // 40]
    step = np.zeros((nodes, heads.size))
    step[heads, np.arange(heads.size)] = 1
    wanted = np.zeros_like(step)
    for length in (1, 2, 3):
        step = A @ step
        wanted += KATZ_WEIGHT**length * step
    scorer = HEURISTICS["katz"]().scorer(GraphView(nodes, data == "cit-hepph", torch.from_numpy(links)))
    found = scorer.score_rows(torch.from_numpy(heads), 0, nodes)
    np.testing.assert_allclose(found.numpy(), wanted.T, rtol=1e-6, atol=0)
