"""Subgraphs and labels of many pairs at once equal those that NetworkX finds for each pair alone."""

from dataclasses import dataclass

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from headtail.baselines.subgraphs import UNREACHABLE, SubgraphExtractor, Subgraphs, distances, drnl, scramble
from headtail.graph.view import GraphView
from random_graphs import as_links, as_pairs, random_view, star, views

Edge = frozenset[int]


@dataclass
class Oracle:
    """The subgraph of one pair by the definition: nodes within `hops` of an end, their links, but not the pair's."""

    graph: nx.Graph
    head: int
    tail: int

    @staticmethod
    def cut(view: GraphView, head: int, tail: int, hops: int) -> "Oracle":
        whole = nx.Graph(as_pairs(view.links))
        whole.add_nodes_from(range(view.num_nodes))
        near = set()
        for end in (head, tail):
            near |= set(nx.single_source_shortest_path_length(whole, end, cutoff=hops))
        graph = nx.Graph(whole.subgraph(near))
        if graph.has_edge(head, tail):
            graph.remove_edge(head, tail)
        return Oracle(graph, head, tail)

    def distance(self, start: int, masked: int | None) -> dict[int, int]:
        """Distances from `start` to all nodes, on paths that avoid `masked`."""
        graph = self.graph.copy()
        if masked is not None and masked != start:
            graph.remove_node(masked)
        found = nx.single_source_shortest_path_length(graph, start)
        return {node: found.get(node, UNREACHABLE) for node in self.graph}

    def label(self, node: int) -> int:
        """SEAL's formula, word by word."""
        if node in (self.head, self.tail):
            return 1
        x, y = self.distance(self.head, self.tail)[node], self.distance(self.tail, self.head)[node]
        if UNREACHABLE in (x, y):
            return 0
        d = x + y
        return 1 + min(x, y) + (d // 2) * ((d // 2) + (d % 2) - 1)


def every_pair(view: GraphView) -> Tensor:
    """All pairs [2, N²], those of a node with itself included."""
    return torch.cartesian_prod(torch.arange(view.num_nodes), torch.arange(view.num_nodes)).T.contiguous()


def extractor(view: GraphView, hops: int, most: int | None = None, seed: int = 0) -> SubgraphExtractor:
    return SubgraphExtractor(view.neighbours, hops, most, seed)


def places(subgraphs: Subgraphs, pair: int) -> range:
    return range(int(subgraphs.first[pair]), int(subgraphs.first[pair + 1]))


def nodes_of(subgraphs: Subgraphs, pair: int) -> list[int]:
    return [int(subgraphs.nodes[place]) for place in places(subgraphs, pair)]


def links_of(subgraphs: Subgraphs, pair: int) -> list[Edge]:
    """Links of a pair's subgraph, each as often as it is stored."""
    a = subgraphs.adjacency
    inside = subgraphs.pair[a.row] == pair
    assert bool((subgraphs.pair[a.col[inside]] == pair).all())
    return [frozenset(link) for link in as_pairs(subgraphs.nodes[torch.stack([a.row[inside], a.col[inside]])])]


def check_against_oracle(view: GraphView, hops: int) -> None:
    pairs = every_pair(view)
    found = extractor(view, hops).extract(pairs)
    masked, plain, labels = distances(found, masked=True), distances(found, masked=False), drnl(found)
    assert found.num_pairs == pairs.shape[1]
    assert torch.equal(found.nodes[found.ends], pairs)
    for number, (head, tail) in enumerate(as_pairs(pairs)):
        oracle = Oracle.cut(view, head, tail, hops)
        nodes = nodes_of(found, number)
        assert len(nodes) == len(set(nodes))
        assert set(nodes) == set(oracle.graph)
        stored = links_of(found, number)
        assert set(stored) == {frozenset(link) for link in oracle.graph.edges}
        assert len(stored) == 2 * oracle.graph.number_of_edges()
        for side, (end, other) in enumerate([(head, tail), (tail, head)]):
            avoiding, free = oracle.distance(end, other), oracle.distance(end, None)
            for place, node in zip(places(found, number), nodes, strict=True):
                assert int(plain[place, side]) == free[node]
                if node != other:  # whose distance is 0 by convention
                    assert int(masked[place, side]) == avoiding[node]
        assert [int(labels[place]) for place in places(found, number)] == [oracle.label(node) for node in nodes]


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("directed", [True, False])
def test_subgraphs_and_labels_equal_networkx(directed: bool, hops: int) -> None:
    check_against_oracle(random_view(11, 14, directed), hops)


@pytest.mark.slow
@given(views(max_nodes=7), st.integers(1, 2))
def test_any_small_graph_equals_networkx(view: GraphView, hops: int) -> None:
    check_against_oracle(view, hops)


def test_a_long_way_round_is_found() -> None:
    ring = GraphView(9, False, as_links([(node, (node + 1) % 9) for node in range(9)]))
    found = extractor(ring, hops=4).extract(torch.tensor([[0], [1]]))
    far = dict(zip(found.nodes.tolist(), distances(found, masked=True).tolist(), strict=True))
    assert far[2] == [7, 1]  # the link 0 – 1 is gone, and 1 is masked
    assert drnl(found)[found.nodes == 5].tolist() == [1 + 4 + 4 * 3]


def test_no_pairs_have_no_subgraphs() -> None:
    found = extractor(random_view(), 2, 3).extract(torch.empty(2, 0, dtype=torch.int64))
    assert (found.num_pairs, found.nodes.numel(), found.adjacency.col.numel()) == (0, 0, 0)
    assert drnl(found).shape == (0,)


def test_a_graph_without_links_has_only_ends() -> None:
    empty = GraphView(4, False, torch.empty(2, 0, dtype=torch.int64))
    found = extractor(empty, 2).extract(torch.tensor([[0, 1], [3, 1]]))
    assert [sorted(nodes_of(found, pair)) for pair in range(2)] == [[0, 3], [1]]
    assert drnl(found).tolist() == [1, 1, 1]


# ---- drawing from crowded hops ----


def first_in_order(cut: SubgraphExtractor, view: GraphView, head: int, tail: int, most: int) -> set[int]:
    """What a cap must keep: of each hop's new nodes, all of which are looked at here, the first in the random order."""
    graph = nx.Graph(as_pairs(view.links))
    graph.add_nodes_from(range(view.num_nodes))
    chosen = frontier = {head, tail}
    for _ in range(cut.hops):
        new = {other for node in frontier for other in graph[node]} - chosen
        frontier = set(sorted(new, key=lambda node: int(cut._rank[node]))[:most])
        chosen = chosen | frontier
    return chosen


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_only_the_beginning_of_lists_is_read_and_nothing_is_missed(hops: int, most: int) -> None:
    view = random_view(30, 120, directed=False)
    pairs = every_pair(view)[:, ::7]
    cut = extractor(view, hops, most)
    found = cut.extract(pairs)
    assert int(found.sizes.max()) <= 2 + hops * most
    for number, (head, tail) in enumerate(as_pairs(pairs)):
        assert set(nodes_of(found, number)) == first_in_order(cut, view, head, tail, most)


def test_every_node_is_drawn_as_often() -> None:
    leaves, most, draws = 24, 6, 250
    view = star(leaves)
    pair = torch.tensor([[0], [1]])
    drawn = torch.cat([extractor(view, 1, most, seed).extract(pair).nodes for seed in range(draws)])
    counts = torch.bincount(drawn, minlength=leaves + 1)[2:].double()
    share = most / (leaves - 1)
    deviation = (draws * share * (1 - share)) ** 0.5
    assert float((counts - draws * share).abs().max()) < 4.5 * deviation
    assert float(counts.sum()) == draws * most


def test_a_cap_that_no_hop_reaches_changes_nothing() -> None:
    view = random_view(20, 40, directed=False)
    pairs = every_pair(view)
    capped, full = (extractor(view, 2, most).extract(pairs) for most in (20, None))
    assert torch.equal(capped.nodes, full.nodes)
    assert torch.equal(capped.adjacency.col, full.adjacency.col)


def test_a_pair_has_the_same_subgraph_in_every_batch_and_orientation() -> None:
    view = random_view(30, 120, directed=True)
    pairs = every_pair(view)[:, ::5]
    cut = extractor(view, 2, 3, seed=4)
    together, flipped = cut.extract(pairs), cut.extract(pairs.flip(0))
    again = extractor(view, 2, 3, seed=4).extract(pairs)
    assert torch.equal(together.nodes, again.nodes)
    assert torch.equal(together.nodes, flipped.nodes)
    assert torch.equal(together.adjacency.col, flipped.adjacency.col)
    assert torch.equal(together.ends, flipped.ends.flip(0))
    for number in (0, 17, pairs.shape[1] - 1):
        alone = cut.extract(pairs[:, number : number + 1])
        assert alone.nodes.tolist() == nodes_of(together, number)
        assert drnl(alone).tolist() == drnl(together)[list(places(together, number))].tolist()
    assert not torch.equal(together.nodes, extractor(view, 2, 3, seed=5).extract(pairs).nodes)


def test_devices_agree(device: torch.device) -> None:
    view = random_view(40, 200, directed=False)
    pairs = every_pair(view)[:, ::3]
    here = extractor(view, 2, 4).extract(pairs)
    there = extractor(view.to(device), 2, 4).extract(pairs.to(device))
    assert torch.equal(there.nodes.cpu(), here.nodes)
    assert torch.equal(there.adjacency.col.cpu(), here.adjacency.col)
    assert torch.equal(drnl(there).cpu(), drnl(here))


# ---- parts ----


def test_scrambled_numbers_are_those_of_splitmix64() -> None:
    def mixed(x: int) -> int:
        x %= 2**64
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        return x ^ (x >> 31)

    numbers = [0, 1, 2, -1, 12345, 2**62, -(2**63), 2**63 - 1]
    assert [x % 2**64 for x in scramble(torch.tensor(numbers)).tolist()] == [mixed(x) for x in numbers]


@pytest.mark.parametrize("self_loops", [True, False])
def test_normalisation_equals_pyg(self_loops: bool) -> None:
    view = random_view(20, 50, directed=False)
    found = extractor(view, 1).extract(every_pair(view)[:, ::11])
    size = found.nodes.numel()
    edges = torch.stack([found.adjacency.row, found.adjacency.col])
    edges, weights = gcn_norm(edges, num_nodes=size, add_self_loops=self_loops, flow="source_to_target")
    wanted = torch.zeros(size, size).index_put_((edges[1], edges[0]), weights, accumulate=True)
    adjacency, loop = found.normalised(self_loops)
    assert adjacency.weight is not None
    dense = torch.zeros(size, size).index_put_((adjacency.row, adjacency.col), adjacency.weight)
    if self_loops:
        dense += torch.diag(loop)
    torch.testing.assert_close(dense, wanted)


@pytest.mark.parametrize(("hops", "most"), [(1, None), (2, None), (1, 3), (2, 3)])
def test_work_is_counted_about_right(hops: int, most: int | None) -> None:
    view = random_view(200, 800, directed=False)
    pairs = every_pair(view)[:, ::97]
    cut = extractor(view, hops, most)
    work = cut.work(pairs)
    sizes = cut.extract(pairs).sizes
    assert work.shape == (pairs.shape[1],)
    assert bool((work >= sizes).all()), "a chunk must not hold more nodes than it was planned for"
    if hops == 1 and most is None:
        degree = view.neighbours.degrees[pairs].sum(dim=0)
        assert bool((work >= 2 + 2 * degree).all())
