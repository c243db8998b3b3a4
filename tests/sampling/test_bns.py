"""Blocking-based neighbour sampling, rule by rule (METHOD 4)."""

from collections import defaultdict
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.sampling.neighbours import BlockedNeighbours, Draw, Fanout, Neighbourhood
from headtail.sampling.numbering import Numbering
from random_graphs import as_links, dense, message_graph, random_view, star, views

# (s, δ) of the paper's settings and one more
SETTINGS = pytest.mark.parametrize(("keep", "share"), [(7, "1/2"), (2, "1/2"), (4, "5/6"), (3, "2/3")])


class Recorder(BlockedNeighbours):
    """Remembers what was drawn at each layer, output layer first."""

    def __init__(self, fanout: Fanout) -> None:
        super().__init__(fanout)
        self.drawn: list[Draw] = []

    def draw(self, degrees: torch.Tensor, keep: int | None, innermost: bool, generator: torch.Generator) -> Draw:
        self.drawn.append(super().draw(degrees, keep, innermost, generator))
        return self.drawn[-1]


def sample(
    sampler: BlockedNeighbours, graph: MessageGraph, targets: list[int], layers: int, seed: int = 0
) -> Neighbourhood:
    numbering = Numbering(graph.num_nodes, graph.device)
    return sampler.sample(graph, torch.tensor(targets), layers, numbering, torch.Generator().manual_seed(seed))


def rows_of(draw: Draw, count: int) -> list[tuple[list[int], list[float], list[int], list[float]]]:
    """Per row: kept offsets and weights, blocked offsets and weights."""
    rows: list[tuple[list[int], list[float], list[int], list[float]]] = [([], [], [], []) for _ in range(count)]
    for owner, offset, weight, kept in zip(
        draw.owner.tolist(), draw.offset.tolist(), draw.weight.tolist(), draw.kept.tolist(), strict=True
    ):
        rows[owner][0 if kept else 2].append(offset)
        rows[owner][1 if kept else 3].append(weight)
    return rows


@SETTINGS
def test_each_regime_keeps_blocks_and_weighs_as_stated(keep: int, share: str, generator: torch.Generator) -> None:
    rho = Fraction(share) / (1 - Fraction(share))
    degrees = torch.arange(1, int(keep * (1 + rho)) + 20).repeat(3)
    draw = BlockedNeighbours(Fanout(keep, keep, float(Fraction(share)))).draw(degrees, keep, False, generator)
    assert draw.self_edge is not None
    rich = [row for row, degree in enumerate(degrees.tolist()) if degree > keep * (1 + rho)]
    assert sorted(draw.self_edge.tolist()) == rich
    for degree, row in zip(degrees.tolist(), rows_of(draw, degrees.numel()), strict=True):
        kept, kept_weights, blocked, blocked_weights = row
        offsets = kept + blocked
        assert len(set(offsets)) == len(offsets)
        assert all(0 <= offset < degree for offset in offsets)
        if degree <= keep:
            assert (len(kept), len(blocked), set(kept_weights)) == (degree, 0, {1.0})
            continue
        assert len(kept) == keep
        assert set(blocked_weights) == {1.0}
        if degree <= keep * (1 + rho):
            assert len(blocked) == degree - keep
            weight = float(max(Fraction(1), Fraction(degree - keep, keep)))
        else:
            assert len(blocked) == keep * rho
            weight = float(rho)
        assert kept_weights == pytest.approx([weight] * keep)


@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 8, 11, 12, 30])
@pytest.mark.parametrize("normalisation", ["row", "column", "symmetric"])
def test_a_sampled_row_of_a_star(leaves: int, normalisation: str) -> None:
    # The hub's row at the output layer with s = 3 and ρ = 3: 3 kept and 9 blocked of more than 12 neighbours.
    keep, rho = 3, 3
    degree = leaves + 1
    graph = message_graph(star(leaves), normalisation=normalisation)
    recorder = Recorder(Fanout(keep, keep, 0.75))
    output = sample(recorder, graph, [0], 2).blocks[-1]
    [(kept, _, blocked, _)] = rows_of(recorder.drawn[0], 1)
    raw: dict[int, float] = defaultdict(float)  # the entry at offset i of the hub's row is node i
    kept_weight = 1.0 if degree <= keep else max(1.0, (degree - keep) / keep)
    if degree > keep * (1 + rho):
        kept_weight = rho
        raw[0] += 1.0
    for node in kept:
        raw[node] += kept_weight
    for node in blocked:
        raw[node] += 1.0
    total = sum(raw.values())
    leaf = {"row": 1.0, "column": degree / 2, "symmetric": (degree / 2) ** 0.5}[normalisation]
    wanted = {node: weight / total * (leaf if node else 1.0) for node, weight in raw.items()}
    found = dense(output.adjacency)[0]
    assert sorted(value for value in found if value) == pytest.approx(sorted(wanted.values()))


@given(views(max_nodes=12), st.sampled_from([2, 4]), st.just(2), st.integers(1, 3), st.integers(0, 99))
def test_the_whole_neighbourhood_follows_from_what_was_drawn(
    view: GraphView, output: int, inner: int, layers: int, seed: int
) -> None:
    """Replays the rules of METHOD 4 in plain Python on the recorded choices."""
    graph = message_graph(view)
    rho = 1.5
    recorder = Recorder(Fanout(output, inner, 0.6))
    targets = list(range(0, view.num_nodes, 2))
    found = sample(recorder, graph, targets, layers, seed)
    neighbours = {
        node: graph.adjacency.col[graph.adjacency.row_ptr[node] : graph.adjacency.row_ptr[node + 1]].tolist()
        for node in range(view.num_nodes)
    }
    nodes, expanded = list(targets), set(targets)
    for depth, (draw, block) in enumerate(zip(recorder.drawn, reversed(found.blocks), strict=True)):
        keep, innermost = output if depth == 0 else inner, depth == layers - 1
        open_nodes = [node for node in nodes if node in expanded]
        weights: dict[int, dict[int, float]] = {node: defaultdict(float) for node in nodes}
        next_expanded = set(expanded)
        for node, (kept, _, blocked, _) in zip(open_nodes, rows_of(draw, len(open_nodes)), strict=True):
            degree = len(neighbours[node])
            kept_weight = 1.0 if degree <= keep or innermost else max(1.0, (degree - keep) / keep)
            if degree > keep * (1 + rho) and not innermost:
                kept_weight = rho
                weights[node][node] += 1.0
            for offset in kept:
                weights[node][neighbours[node][offset]] += kept_weight
                next_expanded.add(neighbours[node][offset])
            for offset in blocked:
                weights[node][neighbours[node][offset]] += 1.0
        for node in nodes:
            if node not in expanded:
                weights[node][node] = 1.0
        sources = found.nodes[: block.adjacency.num_cols].tolist()
        assert sources[: len(nodes)] == nodes
        assert set(sources) == set(nodes) | {node for row in weights.values() for node in row}
        assert block.num_expanded == len(open_nodes)
        matrix = dense(block.adjacency)
        for row, node in enumerate(nodes):
            total = sum(weights[node].values())
            wanted = [weights[node].get(source, 0.0) / total for source in sources]
            assert matrix[row].tolist() == pytest.approx(wanted)
        nodes, expanded = sources, next_expanded


@pytest.mark.parametrize("normalisation", ["row", "column", "symmetric"])
def test_blocked_nodes_see_only_themselves_with_weight_one(normalisation: str) -> None:
    graph = message_graph(star(40), normalisation=normalisation)
    found = sample(BlockedNeighbours(Fanout(3, 2, 0.5)), graph, [0], 3)
    for block, kept in zip(found.blocks[:2], (None, 3), strict=True):
        matrix = dense(block.adjacency)
        alone = [row for row in range(len(matrix)) if (matrix[row] != 0).sum() == 1]
        assert len(alone) == block.num_targets - block.num_expanded > 0
        for row in alone:
            assert matrix[row, row] == pytest.approx(1.0)
        if kept is not None:  # the hub and its three kept leaves (the hub itself may be one of them)
            assert block.num_expanded in (kept, kept + 1)


def test_the_innermost_layer_is_a_plain_mean_over_kept_and_blocked() -> None:
    graph = message_graph(random_view(40, 400))
    found = sample(BlockedNeighbours(Fanout(4, 3, 5 / 6)), graph, [0, 1, 2], 2)
    inner = found.blocks[0]
    matrix = dense(inner.adjacency)
    degrees = graph.adjacency.degrees[found.nodes[: inner.num_targets]].tolist()
    seen = 0
    for row, degree in enumerate(degrees):
        weights = matrix[row][matrix[row] != 0]
        if len(weights) == 1 and degree > 1:
            continue  # blocked
        seen += 1
        assert len(weights) == min(degree, 18)  # s(1 + ρ) = 3 · 6
        assert weights.tolist() == pytest.approx([1 / len(weights)] * len(weights))
    assert seen >= 3
    assert max(degrees) > 18


def test_a_single_layer_is_innermost_and_output_at_once() -> None:
    found = sample(BlockedNeighbours(Fanout(3, 1, 0.5)), message_graph(star(20)), [0], 1)
    matrix = dense(found.blocks[0].adjacency)
    assert matrix[matrix != 0].tolist() == pytest.approx([1 / 6] * 6)


@pytest.mark.parametrize("seed", range(5))
def test_heads_of_high_degree_keep_their_neighbours_at_inner_layers(seed: int) -> None:
    # Two hubs that are linked, so that each may also block the other on its path.
    pairs = [(0, 1)] + [(0, leaf) for leaf in range(2, 40)] + [(1, leaf) for leaf in range(40, 80)]
    graph = message_graph(GraphView(80, True, as_links(pairs)))
    found = sample(BlockedNeighbours(Fanout(3, 2, 0.5)), graph, [0, 1], 3, seed)
    for block, fewest in zip(found.blocks, (4, 4, 6), strict=True):
        counts = (dense(block.adjacency)[:2] != 0).sum(axis=1)
        assert counts.min() >= fewest
    assert found.blocks[0].num_expanded >= found.blocks[1].num_expanded >= 2


def test_an_output_fanout_of_all_is_exact_and_keeps_everyone() -> None:
    view = star(30)
    graph = message_graph(view)
    found = sample(BlockedNeighbours(Fanout(None, 4, 5 / 6)), graph, [0], 2)
    assert dense(found.blocks[-1].adjacency)[0].tolist() == pytest.approx([1 / 31] * 31)
    assert found.blocks[0].num_expanded == 31


@pytest.mark.parametrize("degree", [5, 9, 30])
def test_every_neighbour_is_as_likely_kept_and_blocked_as_another(degree: int) -> None:
    keep, rho, rows = 3, 2, 6000
    sampler = BlockedNeighbours(Fanout(keep, keep, 2 / 3))
    draw = sampler.draw(torch.full((rows,), degree), keep, False, torch.Generator().manual_seed(3))
    blocked = min(degree - keep, keep * rho)
    for flag, chosen in ((True, keep), (False, blocked)):
        counts = torch.bincount(draw.offset[draw.kept == flag], minlength=degree)
        assert int(counts.sum()) == rows * chosen
        for count in counts.tolist():
            assert binomtest(count, rows, chosen / degree).pvalue > 1e-4
