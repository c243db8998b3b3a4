"""Every neighbour sampler: exact with enough fan-out, unbiased where it should be, fixed by the seed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.sampling import neighbours
from headtail.sampling.neighbours import NEIGHBOURS, Draw, Fanout, Neighbourhood, NeighbourSampler
from headtail.sampling.numbering import Numbering
from random_graphs import dense, dense_messages, message_graph, random_view, views

SAMPLERS = pytest.mark.parametrize("name", sorted(NEIGHBOURS))
NORMALISATIONS = pytest.mark.parametrize("normalisation", ["row", "column", "symmetric"])


def sample(
    sampler: NeighbourSampler, graph: MessageGraph, targets: list[int], layers: int, seed: int = 0
) -> Neighbourhood:
    device = graph.device
    generator = torch.Generator(device=device).manual_seed(seed)
    numbering = Numbering(graph.num_nodes, device)
    return sampler.sample(graph, torch.tensor(targets, device=device), layers, numbering, generator)


def layers_of(found: Neighbourhood, num_nodes: int) -> list[torch.Tensor]:
    """Each layer as [targets, N] over node numbers: the sources of a block are the first of all nodes."""
    out = []
    for block in found.blocks:
        matrix = torch.zeros(block.num_targets, num_nodes, dtype=torch.float64)
        matrix[:, found.nodes[: block.adjacency.num_cols]] = torch.from_numpy(dense(block.adjacency))
        out.append(matrix)
    return out


@SAMPLERS
@NORMALISATIONS
@given(views(), st.integers(1, 3), st.data())
def test_enough_fanout_equals_the_full_graph(
    name: str, normalisation: str, view: GraphView, layers: int, data: st.DataObject
) -> None:
    targets = data.draw(st.lists(st.integers(0, view.num_nodes - 1), min_size=1, unique=True))
    enough = data.draw(st.sampled_from([None, view.num_nodes, 10 * view.num_nodes]))
    sampler = NEIGHBOURS[name](Fanout(enough, enough, data.draw(st.sampled_from([0.0, 0.5, 5 / 6]))))
    found = sample(sampler, message_graph(view, normalisation=normalisation), targets, layers)
    exact = torch.from_numpy(dense_messages(view, normalisation))
    assert len(found.blocks) == layers
    assert found.nodes[: len(targets)].tolist() == targets
    assert len(set(found.nodes.tolist())) == found.nodes.numel()
    for block, matrix in zip(found.blocks, layers_of(found, view.num_nodes), strict=True):
        rows = found.nodes[: block.num_targets]
        torch.testing.assert_close(matrix, exact[rows], rtol=1e-5, atol=1e-7)
        assert block.num_expanded == block.num_targets


@SAMPLERS
def test_blocks_fit_each_other(name: str) -> None:
    found = sample(NEIGHBOURS[name](Fanout(4, 2, 0.5)), message_graph(random_view(30, 200)), [3, 0, 7], 3)
    inner, middle, output = found.blocks
    assert output.num_targets == 3
    assert middle.num_targets == output.adjacency.num_cols
    assert inner.num_targets == middle.adjacency.num_cols
    assert found.nodes.numel() == inner.adjacency.num_cols
    assert len(set(found.nodes.tolist())) == found.nodes.numel()
    for block in found.blocks:
        assert int(block.adjacency.degrees.min()) >= 1  # no target is left without a neighbour


@pytest.mark.parametrize(("fanout", "kept"), [(Fanout(4, 2), (4, 2)), (Fanout(None, 3), (99, 3))])
def test_uniform_takes_the_fanout_of_each_layer(fanout: Fanout, kept: tuple[int, int]) -> None:
    graph = message_graph(random_view(30, 200))
    found = sample(NEIGHBOURS["uniform"](fanout), graph, list(range(10)), 2)
    for block, most in zip(found.blocks, reversed(kept), strict=True):
        nodes = found.nodes[: block.num_targets]
        taken = graph.adjacency.degrees[nodes].clamp(max=most)
        assert torch.equal(block.adjacency.degrees, taken)
        assert torch.from_numpy(dense(block.adjacency) != 0).sum(dim=1).tolist() == taken.tolist()
        assert block.num_expanded == block.num_targets


@pytest.mark.slow
@NORMALISATIONS
def test_uniform_sampling_is_unbiased(normalisation: str) -> None:
    view = random_view(12, 40)
    graph = message_graph(view, normalisation=normalisation)
    sampler = NEIGHBOURS["uniform"](Fanout(3, 2))
    exact = torch.from_numpy(dense_messages(view, normalisation))
    draws = torch.stack([layers_of(sample(sampler, graph, list(range(12)), 1, seed), 12)[0] for seed in range(400)])
    error = draws.std(dim=0) / 400**0.5
    # Cells of rows that are taken whole do not vary, up to rounding.
    assert float(((draws.mean(dim=0) - exact).abs() / (error + 1e-6)).max()) < 4.5


@SAMPLERS
def test_the_seed_decides(name: str) -> None:
    graph = message_graph(random_view(30, 200))
    sampler = NEIGHBOURS[name](Fanout(4, 2, 0.5))
    first, again, other = (facts(sample(sampler, graph, [0, 1, 2], 2, seed)) for seed in (1, 1, 2))
    assert first == again
    assert (first == other) == (name == "full")


def facts(found: Neighbourhood) -> list[list[float]]:
    """Everything that was sampled, as plain numbers."""
    blocks = [block.adjacency for block in found.blocks]
    assert all(block.weight is not None for block in blocks)
    return [found.nodes.tolist(), *(block.col.tolist() + block.weight.tolist() for block in blocks)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dense_rows", "small_entries", "same_as"),
    [(12, 380, "full"), (13, 380, "bns"), (12, 379, "bns"), (100, 2**22, "bns")],
)
def test_auto_takes_all_neighbours_where_the_graph_is_small_and_dense(
    dense_rows: int, small_entries: int, same_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = message_graph(random_view(30, 200))
    assert graph.adjacency.col.numel() == 380  # 12.7 in a row
    monkeypatch.setattr(neighbours, "DENSE_ROWS", dense_rows)
    monkeypatch.setattr(neighbours, "SMALL_ENTRIES", small_entries)
    found, same = (facts(sample(NEIGHBOURS[name](Fanout(4, 2)), graph, [0, 1, 2], 2)) for name in ("auto", same_as))
    assert found == same


class KeptByTheFirst(NeighbourSampler):
    """Everything is drawn, but only the first open row keeps its neighbours."""

    def draw(self, degrees: torch.Tensor, keep: int | None, innermost: bool, generator: torch.Generator) -> Draw:
        owner = torch.repeat_interleave(degrees)
        offset = torch.cat([torch.arange(int(degree)) for degree in degrees])
        return Draw(owner, offset, torch.ones(owner.numel()), owner == 0)


def test_a_node_that_one_keeps_and_another_blocks_is_expanded() -> None:
    # 0 keeps 2; 1 blocks 2 and 3.
    view = GraphView(6, True, torch.tensor([[0, 1, 1, 2, 3], [2, 2, 3, 4, 5]]))
    found = sample(KeptByTheFirst(Fanout()), message_graph(view), [0, 1], 2)
    inner = layers_of(found, 6)[0]
    seen = {
        int(node): set(inner[row].nonzero().squeeze(1).tolist()) for row, node in enumerate(found.nodes[: len(inner)])
    }
    assert seen == {0: {0, 2}, 1: {1, 2, 3}, 2: {0, 1, 2, 4}, 3: {3}}
    assert found.blocks[0].num_expanded == 3


@SAMPLERS
@NORMALISATIONS
def test_samplers_on_every_device(name: str, normalisation: str, device: torch.device) -> None:
    view = random_view(30, 200)
    graph = message_graph(view, normalisation=normalisation, device=device)
    found = sample(NEIGHBOURS[name](Fanout(99, 99)), graph, [0, 5, 9], 2)
    assert found.nodes.device.type == device.type
    exact = torch.from_numpy(dense_messages(view, normalisation))
    found = Neighbourhood(found.nodes.cpu(), found.blocks)
    for matrix in layers_of(found, 30):
        torch.testing.assert_close(matrix, exact[found.nodes[: len(matrix)]], rtol=1e-5, atol=1e-7)
