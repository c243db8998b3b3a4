"""Random walks against the transition probabilities of their definition, worked out node by node."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import chi2

from headtail.baselines import walks
from headtail.baselines.walks import Walker
from headtail.graph.view import GraphView
from random_graphs import as_links

# Two triangles with a common link, a tail of two nodes, a hub of degree 4, and node 8 without links.
LINKS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4), (4, 5), (3, 6), (6, 7)]
NODES = 9
WEIGHTS = [(1.0, 1.0), (4.0, 0.25), (0.25, 4.0), (1.0, 0.5), (0.01, 0.02)]
WALKERS = 2000


def walker(return_weight: float = 1.0, explore_weight: float = 1.0, device: str | torch.device = "cpu") -> Walker:
    neighbours = GraphView(NODES, False, as_links(LINKS)).neighbours.to(device)
    return Walker(neighbours, return_weight, explore_weight)


def generator(device: str | torch.device = "cpu", seed: int = 0) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def probabilities(before: int, here: int, return_weight: float, explore_weight: float) -> dict[int, float]:
    """The step from `here` after `before`, as the node2vec paper defines it: by the distance from `before`."""
    graph = nx.Graph(LINKS)
    by_distance = {0: return_weight, 1: 1.0, 2: explore_weight}
    weight = {x: by_distance[nx.shortest_path_length(graph, before, x)] for x in graph[here]}
    return {x: w / sum(weight.values()) for x, w in weight.items()}


def third_step_fits(found: torch.Tensor, return_weight: float, explore_weight: float) -> float:
    """The p-value of the second steps of walks [S, ≥ 3], given their first, by Pearson's test over all (t, v)."""
    seen = Counter(map(tuple, found[:, :3].tolist()))
    arrived = Counter(map(tuple, found[:, :2].tolist()))
    statistic, freedom = 0.0, 0
    for (before, here), count in arrived.items():
        wanted = probabilities(before, here, return_weight, explore_weight)
        assert {x for t, v, x in seen if (t, v) == (before, here)} <= set(wanted)
        statistic += sum((seen[before, here, x] - count * p) ** 2 / (count * p) for x, p in wanted.items())
        freedom += len(wanted) - 1
    return float(chi2.sf(statistic, freedom))


def linked_starts(device: str | torch.device = "cpu") -> torch.Tensor:
    return torch.arange(NODES - 1, device=device).repeat(WALKERS)


@pytest.mark.slow
@pytest.mark.parametrize(("return_weight", "explore_weight"), WEIGHTS)
@pytest.mark.parametrize("rounds", [0, 2, walks.ROUNDS], ids=["exact", "both", "rejection"])
def test_steps_follow_the_definition(
    return_weight: float, explore_weight: float, rounds: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "ROUNDS", rounds)
    monkeypatch.setattr(walks, "BLOCK_ENTRIES", 5000)
    biased = walker(return_weight, explore_weight, device)
    found = biased.walk(linked_starts(device), 3, generator(device)).cpu()
    assert third_step_fits(found, return_weight, explore_weight) > 0.01
    # The test is sharp enough to tell other weights apart.
    assert third_step_fits(found, 2 * return_weight, explore_weight) < 1e-6
    assert third_step_fits(found, return_weight, 2 * explore_weight) < 1e-6


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.25, 4.0)])
def test_the_first_step_is_uniform(weights: tuple[float, float]) -> None:
    found = walker(*weights).walk(torch.full((WALKERS,), 3), 2, generator())
    counts = np.bincount(found[:, 1].numpy(), minlength=NODES)[[1, 2, 4, 6]]
    assert counts.sum() == WALKERS
    assert chi2.sf(((counts - WALKERS / 4) ** 2 / (WALKERS / 4)).sum(), 3) > 0.01


def test_a_long_walk_visits_nodes_in_proportion_to_their_degree() -> None:
    found = walker().walk(torch.zeros(20_000, dtype=torch.long), 60, generator())[:, -1]
    degree = np.bincount(np.array(LINKS).ravel(), minlength=NODES)
    share = np.bincount(found.numpy(), minlength=NODES) / found.numel()
    np.testing.assert_allclose(share, degree / degree.sum(), atol=0.012)


@pytest.mark.parametrize(("return_weight", "explore_weight"), WEIGHTS)
def test_every_step_is_a_link_and_walks_repeat(return_weight: float, explore_weight: float) -> None:
    biased = walker(return_weight, explore_weight)
    starts = torch.arange(NODES).repeat(50)
    found = biased.walk(starts, 12, generator())
    assert found.shape == (starts.numel(), 12)
    assert torch.equal(found[:, 0], starts)
    linked = starts != NODES - 1
    steps = set(map(tuple, torch.stack([found[linked, :-1].ravel(), found[linked, 1:].ravel()]).T.tolist()))
    assert steps <= {(a, b) for a, b in LINKS} | {(b, a) for a, b in LINKS}
    assert torch.equal(found, biased.walk(starts, 12, generator()))
    assert not torch.equal(found, biased.walk(starts, 12, generator(seed=1)))


def test_nodes_without_neighbours_are_never_left() -> None:
    starts = torch.tensor([8, 8, 0])
    for one in (walker(), walker(0.5, 2.0)):
        assert (one.walk(starts, 5, generator())[:2] == 8).all()
    nobody = Walker(GraphView(3, False, torch.empty(2, 0, dtype=torch.long)).neighbours, 0.5, 2.0)
    assert torch.equal(nobody.walk(torch.arange(3), 3, generator()), torch.arange(3)[:, None].expand(3, 3))


def test_a_dead_end_is_left_the_way_it_was_entered_however_unlikely() -> None:
    found = walker(return_weight=1e-12).walk(torch.full((200,), 6), 3, generator())
    stuck = found[found[:, 1] == 7]
    assert len(stuck) > 50
    assert (stuck[:, 2] == 6).all()


def test_directed_links_are_walked_both_ways() -> None:
    view = GraphView(3, True, as_links([(0, 1), (2, 1)]))
    found = Walker(view.neighbours).walk(torch.zeros(100, dtype=torch.long), 3, generator())
    assert set(found[:, 2].tolist()) == {0, 2}
