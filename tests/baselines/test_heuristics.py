"""Heuristics against NetworkX, dense formulas, and the known figures of real graphs."""

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from method_case import NODES, MethodCase, random_pairs, random_view
from torch import Tensor

from headtail.baselines import sparse
from headtail.baselines.heuristics import HEURISTICS
from headtail.contract import Method
from headtail.errors import ConfigError
from headtail.evaluation.evaluator import evaluate
from headtail.graph.view import GraphView

SHARED = Path(os.environ.get("HEADTAIL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize("name", list(HEURISTICS))
class TestContract(MethodCase):
    @pytest.fixture
    def method(self, name: str) -> Method:
        return HEURISTICS[name]()


def undirected_networkx(view: GraphView) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(view.num_nodes))
    graph.add_edges_from(view.links.T.tolist())
    return graph


def all_pairs() -> tuple[Tensor, Tensor]:
    heads, tails = torch.combinations(torch.arange(NODES)).T
    return heads, tails


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("links", [0, 20, 90, 300])
def test_neighbour_heuristics_equal_networkx(directed: bool, seed: int, links: int) -> None:
    view = random_view(directed, seed, links=links)
    graph = undirected_networkx(view)
    heads, tails = all_pairs()
    pairs = list(zip(heads.tolist(), tails.tolist(), strict=True))
    wanted = {
        "cn": [float(len(list(nx.common_neighbors(graph, i, j)))) for i, j in pairs],
        "aa": [score for _, _, score in nx.adamic_adar_index(graph, pairs)],
        "ra": [score for _, _, score in nx.resource_allocation_index(graph, pairs)],
        "jaccard": [score for _, _, score in nx.jaccard_coefficient(graph, pairs)],
    }
    for name, scores in wanted.items():
        found = HEURISTICS[name]().scorer(view).score_pairs(heads, tails)
        torch.testing.assert_close(found, torch.tensor(scores, dtype=torch.float32), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_popularity_is_in_degree_or_mean_degree(seed: int) -> None:
    heads, tails = random_pairs(seed)
    directed = random_view(True, seed)
    arrows = nx.DiGraph(directed.links.T.tolist())
    arrows.add_nodes_from(range(NODES))
    found = HEURISTICS["popularity"]().scorer(directed).score_pairs(heads, tails)
    assert found.tolist() == [arrows.in_degree(tail) for tail in tails.tolist()]

    undirected = random_view(False, seed)
    degree = undirected_networkx(undirected).degree
    found = HEURISTICS["popularity"]().scorer(undirected).score_pairs(heads, tails)
    ends = zip(heads.tolist(), tails.tolist(), strict=True)
    assert found.tolist() == [(degree[i] + degree[j]) / 2 for i, j in ends]


@pytest.mark.parametrize("seed", range(3))
def test_preferential_attachment_is_the_product_of_degrees(seed: int) -> None:
    heads, tails = random_pairs(seed)
    ends = list(zip(heads.tolist(), tails.tolist(), strict=True))
    undirected = random_view(False, seed)
    found = HEURISTICS["pa"]().scorer(undirected).score_pairs(heads, tails)
    assert found.tolist() == [
        score for _, _, score in nx.preferential_attachment(undirected_networkx(undirected), ends)
    ]

    directed = random_view(True, seed)
    arrows = nx.DiGraph(directed.links.T.tolist())
    arrows.add_nodes_from(range(NODES))
    found = HEURISTICS["pa"]().scorer(directed).score_pairs(heads, tails)
    assert found.tolist() == [arrows.out_degree(i) * arrows.in_degree(j) for i, j in ends]


def test_rows_of_jaccard_equal_the_sets() -> None:
    view = random_view(False, links=300)
    graph = undirected_networkx(view)
    around = [set(graph[node]) for node in range(NODES)]
    wanted = [[len(a & b) / max(len(a | b), 1) for b in around[5:25]] for a in around]
    found = HEURISTICS["jaccard"]().scorer(view).score_rows(torch.arange(NODES), 5, 25)
    torch.testing.assert_close(found, torch.tensor(wanted), rtol=1e-6, atol=0)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("links", [0, 90, 300])
def test_item2hop_equals_the_dense_formula(directed: bool, links: int) -> None:
    view = random_view(directed, 7, links=links)
    D = np.zeros((NODES, NODES))
    D[view.links[0], view.links[1]] = 1
    if not directed:
        D += D.T
    S = D @ np.diag(1 / np.maximum(D.sum(axis=0), 1)) @ D.T @ D
    if not directed:
        S = (S + S.T) / 2
    found = HEURISTICS["item2hop"]().scorer(view).score_rows(torch.arange(NODES), 0, NODES)
    np.testing.assert_allclose(found.numpy(), S, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(HEURISTICS))
@pytest.mark.parametrize(("cells", "entries"), [(1, 1), (NODES, 10), (3 * NODES, 25), (10**6, 7)])
def test_block_sizes_do_not_matter(monkeypatch: pytest.MonkeyPatch, name: str, cells: int, entries: int) -> None:
    scorer = HEURISTICS[name]().scorer(random_view(True))
    heads, tails = random_pairs()
    pairs, rows = scorer.score_pairs(heads, tails), scorer.score_rows(heads, 2, 20)
    monkeypatch.setattr(sparse, "SCRATCH_CELLS", cells)
    monkeypatch.setattr(sparse, "BLOCK_ENTRIES", entries)
    assert torch.equal(scorer.score_pairs(heads, tails), pairs)
    assert torch.equal(scorer.score_rows(heads, 2, 20), rows)


def test_spans_cover_everything_within_the_budget() -> None:
    costs = np.array([3, 0, 9, 1, 1, 1, 0, 20, 2])
    found = list(sparse.spans(costs, 4))
    assert [position for first, last in found for position in range(first, last)] == list(range(9))
    assert all(last - first == 1 or costs[first:last].sum() <= 4 for first, last in found)


def test_duplicate_links_count_once() -> None:
    view = random_view(True)
    twice = view.with_links(view.links)
    for name in HEURISTICS:
        scores = [HEURISTICS[name]().scorer(seen).score_pairs(*random_pairs()) for seen in (view, twice)]
        assert torch.equal(scores[0], scores[1]), name


def test_unknown_heuristic_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'popularity'"):
        HEURISTICS["popularty"]


def shared_split(name: str) -> tuple[GraphView, Tensor, Tensor, str]:
    """Returns the test view, positives, negatives and metric of a real graph."""
    path = SHARED / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with np.load(path) as arrays:
        train, valid, test, rivals = (
            torch.from_numpy(arrays[part]).long() for part in ("train", "valid", "test", "test_neg")
        )
        view = GraphView(int(arrays["num_nodes"]), bool(arrays["directed"]), train)
        # Co-authorship is dated: when the test year is predicted, the validation year is known.
        return view.with_links(valid) if name == "acl-collab" else view, test, rivals, str(arrays["metric"])


FIGURES = {
    "debian": {"item2hop": 57.85, "ra": 31.54, "popularity": 30.16},
    "metamath": {"item2hop": 72.63, "ra": 59.17, "popularity": 56.54},
    "cit-hepph": {"ra": 78.60, "aa": 78.04, "item2hop": 76.72},
    "acl-collab": {"aa": 21.43, "ra": 18.48, "cn": 14.53},
    # RA is often quoted as 27.60 here. The definition gives 6.23, see test_ra_on_ddi_is_the_dense_product.
    "ogbl-ddi": {"cn": 17.73, "aa": 18.61, "ra": 6.23},
}


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("data", FIGURES)
def test_known_figures_of_real_graphs(data: str) -> None:
    view, positives, negatives, metric = shared_split(data)
    found = {
        name: 100 * evaluate(HEURISTICS[name]().scorer(view), positives, negatives, metric)[metric]
        for name in FIGURES[data]
    }
    assert found == pytest.approx(FIGURES[data], abs=0.006)


@pytest.mark.shared
def test_ra_on_ddi_is_the_dense_product() -> None:
    view, positives, negatives, _ = shared_split("ogbl-ddi")
    A = torch.zeros(view.num_nodes, view.num_nodes, dtype=torch.float64)
    A[view.links[0], view.links[1]] = A[view.links[1], view.links[0]] = 1
    scorer = HEURISTICS["ra"]().scorer(view)
    for heads, tails in (positives[:, ::500], negatives[:, ::500]):
        dense = (A[heads] * A[tails] / A.sum(dim=0).clamp(min=1)).sum(dim=1)
        torch.testing.assert_close(scorer.score_pairs(heads, tails), dense.float(), rtol=1e-6, atol=0)
