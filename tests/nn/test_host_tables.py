"""Encoders, models and scores that read host memory, against the same on the device."""

import pytest
import torch
from tiny_models import make_model, one_batch, randomise
from torch import Tensor

from headtail.graph import tables
from headtail.graph.message import MessageGraph
from headtail.graph.tables import HostTable, Table, rows_of
from headtail.nn import all_nodes
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.encoders import HeadEncoder, LayerStyle, TailEncoder
from headtail.nn.models import ModelShape
from headtail.nn.scorer import HadamardScorer
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.numbering import Numbering
from random_graphs import message_graph, random_view

IN, DIM = 5, 6
STYLES = [LayerStyle(DIM), LayerStyle(DIM, statistics="graph")]
ENCODERS = ["sage", "gat", "pyg:GATv2Conv"]


def on_host(graph: MessageGraph) -> MessageGraph:
    """Returns the same message graph with its features in host memory."""
    features = HostTable(rows_of(graph.features, slice(None)).cpu(), graph.device)
    return MessageGraph(graph.adjacency, graph.normalisation, features, graph.layers)


def whole(table: Table) -> Tensor:
    return rows_of(table, slice(None))


@pytest.fixture(params=["hidden on the device", "hidden on the host"])
def spilled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there is no room for what layers make of all nodes."""
    spills: bool = request.param == "hidden on the host"
    if spills:
        monkeypatch.setattr(tables, "has_room", lambda _device, _needed: False)
    return spills


@pytest.mark.parametrize("features", ["device", "host"])
@pytest.mark.parametrize("elements", [1, 400, 2**26])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("style", STYLES, ids=["running", "graph"])
def test_all_nodes_are_encoded_alike(
    encoder: str,
    style: LayerStyle,
    elements: int,
    features: str,
    spilled: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = message_graph(random_view(12, 30), IN, layers=3, device=device)
    head, tail = (kind(encoder, IN, 3, style) for kind in (HeadEncoder, TailEncoder))
    for seed, part in enumerate((head, tail)):
        randomise(part, seed)
        part.to(device).eval()
    with monkeypatch.context() as roomy:
        roomy.setattr(tables, "has_room", lambda _device, _needed: True)
        heads, tails = whole(head.encode_all(graph)), whole(tail.encode_all(graph, head.convolutions))
    monkeypatch.setattr(all_nodes, "BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(all_nodes, "SPARED_BLOCKS", 1)
    here = on_host(graph) if features == "host" else graph
    found = head.encode_all(here), tail.encode_all(here, head.convolutions)
    assert isinstance(found[0], HostTable) == spilled
    for table, wanted in zip(found, (heads, tails), strict=True):
        assert table.device.type == device.type
        torch.testing.assert_close(whole(table), wanted, rtol=1e-4, atol=1e-5)


def test_of_the_host_only_rows_that_are_needed_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, fetched = on_host(message_graph(random_view(25, 60), IN, layers=1)), []
    rows = HostTable.rows
    monkeypatch.setattr(HostTable, "rows", lambda table, index: fetched.append(index.tolist()) or rows(table, index))
    monkeypatch.setattr(all_nodes, "BLOCK_ELEMENTS", 1)  # a block per row
    HeadEncoder("sage", IN, 1, STYLES[0]).eval().encode_all(graph)
    assert fetched == [graph.adjacency.block(node, node + 1).col.tolist() for node in range(25)]


def test_fetched_neighbours_count_in_the_size_of_blocks() -> None:
    graph, convolution = message_graph(random_view(25, 60), IN), HeadEncoder("sage", IN, 1, STYLES[0]).convolutions[0]
    plain, fetched = (all_nodes.row_costs(convolution, graph.adjacency.row_ptr, fetched) for fetched in (False, True))
    assert ((fetched - plain).diff() >= IN * graph.adjacency.degrees).all()


@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
@pytest.mark.parametrize("homophily", [True, False])
def test_models_represent_all_nodes_alike(method: str, homophily: bool, spilled: bool, device: torch.device) -> None:
    graph = message_graph(random_view(25, 60), IN, device=device)
    model = make_model(method, ModelShape(IN, DIM, 2, homophily=homophily, norm_statistics="graph")).to(device).eval()
    found = model.represent_all(on_host(graph))
    for table, wanted in zip(found, model.represent_all(graph), strict=True):
        torch.testing.assert_close(whole(table), whole(wanted), rtol=1e-4, atol=1e-5)
    if method == "aml" and homophily:
        assert isinstance(found[0], HostTable) == spilled
        heads = whole(model.head.encode_all(graph)) + whole(found[1])
        torch.testing.assert_close(whole(found[0]), heads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_batch_is_learned_alike(method: str, encoder: str, device: torch.device) -> None:
    view = random_view(25, 60)
    graph = message_graph(view, IN, device=device)
    gradients = []
    for here in (graph, on_host(graph)):
        model = make_model(method, ModelShape(IN, DIM, 2, encoder)).to(device)
        batch = one_batch(here, view, 2, model.gnn_scope, "bns")
        torch.cat(model(here, batch)).square().sum().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert gradients[0]
    for one, other in zip(*gradients, strict=True):  # convolutions of others sum in no order on a GPU
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * max(1.0, float(one.abs().max())))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_neighbourhoods_that_read_features_where_they_are(encoder: str, device: torch.device) -> None:
    graph = message_graph(random_view(25, 60), IN, device=device)
    head, targets = HeadEncoder(encoder, IN, 2, STYLES[0]).to(device).eval(), torch.tensor([3, 24, 0], device=device)
    generator = torch.Generator(device=device).manual_seed(0)
    sampler = NEIGHBOURS["full"](Fanout())
    chosen = sampler.sample(graph, targets, 2, Numbering(25, graph.device), generator, reads_features=True)
    assert chosen.reads_features
    wanted = whole(head.encode_all(graph))[targets]
    torch.testing.assert_close(head(on_host(graph).features, chosen), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head(graph.features, chosen), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("which", ["both", "heads", "tails"])
def test_scores_from_the_host(which: str, directed: bool, device: torch.device) -> None:
    u, v = (torch.randn(9, DIM, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    mlp = HadamardScorer(DIM, 3, 0.0)
    randomise(mlp)
    mlp.to(device).eval()
    plain = EmbeddingScorer(u.to(device), v.to(device), mlp, directed)
    heads, tails = (
        HostTable(table, device) if which in ("both", name) else table.to(device)
        for table, name in ((u, "heads"), (v, "tails"))
    )
    scorer = EmbeddingScorer(heads, tails, mlp, directed)
    assert (scorer.num_nodes, scorer.device.type, scorer.pair_bytes) == (9, device.type, plain.pair_bytes)
    few, many = torch.tensor([8, 0, 3], device=device), torch.arange(6, device=device).view(3, 2)
    torch.testing.assert_close(scorer.score_pairs(few, many[:, 0]), plain.score_pairs(few, many[:, 0]))
    torch.testing.assert_close(scorer.score_tails(few, many), plain.score_tails(few, many))
    torch.testing.assert_close(scorer.score_rows(few, 2, 9), plain.score_rows(few, 2, 9))
    assert torch.equal(whole(scorer.heads).cpu(), u)  # nothing was scored in place
    assert torch.equal(whole(scorer.tails).cpu(), v)
