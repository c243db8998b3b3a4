"""The head GNN and the tail MLP: exact neighbourhoods, blocks, and what the tail shares with the head."""

import pytest
import torch
from method_oracle import unit
from tiny_models import randomise
from torch import Tensor, nn

from headtail.errors import ConfigError
from headtail.graph.csr import CSR
from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.kernels.product import Product
from headtail.nn import all_nodes
from headtail.nn.all_nodes import last_row, row_costs
from headtail.nn.convolutions import Convolution, SageConvolution
from headtail.nn.encoders import HeadEncoder, LayerStyle, TailEncoder
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.numbering import Numbering
from random_graphs import message_graph, random_view

IN, DIM = 5, 6
NORMALISATIONS = ["row", "column", "symmetric"]
STYLE, GRAPH_STYLE = LayerStyle(DIM), LayerStyle(DIM, statistics="graph")
GENEROUS = Fanout(output=100, inner=100, blocked=0.5)


def head_of(encoder: str = "sage", layers: int = 2, style: LayerStyle = STYLE) -> HeadEncoder:
    torch.manual_seed(0)
    head = HeadEncoder(encoder, IN, layers, style)
    randomise(head)
    return head.eval()


def tail_of(layers: int = 2, style: LayerStyle = STYLE, **switches: bool) -> TailEncoder:
    torch.manual_seed(1)
    tail = TailEncoder("sage", IN, layers, style, **switches)
    randomise(tail, seed=8)
    return tail.eval()


def sampled(head: HeadEncoder, graph: MessageGraph, targets: Tensor, sampler: str) -> Tensor:
    layers = len(head.convolutions)
    numbering = Numbering(graph.num_nodes, graph.device)
    generator = torch.Generator(device=graph.device).manual_seed(0)
    chosen = NEIGHBOURS[sampler](GENEROUS).sample(graph, targets, layers, numbering, generator)
    out: Tensor = head(graph.features, chosen)
    return out.detach()


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("sampler", ["full", "uniform", "bns"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_samplers_that_keep_every_neighbour_equal_the_full_encoder(
    layers: int, sampler: str, normalisation: str
) -> None:
    graph = message_graph(random_view(25, 60), IN, normalisation, layers)
    head, targets = head_of(layers=layers), torch.tensor([3, 24, 0, 11])
    wanted = head.encode_all(graph)[targets]
    torch.testing.assert_close(sampled(head, graph, targets, sampler), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ["gat", "pyg:GATv2Conv", "pyg:TransformerConv", "pyg:SAGEConv"])
@pytest.mark.parametrize("sampler", ["full", "uniform", "bns"])
def test_every_encoder_equals_itself_on_the_full_graph(encoder: str, sampler: str, device: torch.device) -> None:
    graph = message_graph(random_view(25, 60), IN, device=device)
    head, targets = head_of(encoder).to(device), torch.tensor([3, 24, 0, 11], device=device)
    wanted = head.encode_all(graph)[targets]
    torch.testing.assert_close(sampled(head, graph, targets, sampler), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_heads_have_length_one(layers: int) -> None:
    encoded = head_of(layers=layers).encode_all(message_graph(random_view(), IN))
    torch.testing.assert_close(encoded.norm(dim=1), torch.ones(encoded.shape[0]))


def test_dropout_rests_in_evaluation_and_works_in_training() -> None:
    graph = message_graph(random_view(), IN)
    head = head_of(style=LayerStyle(DIM, dropout=0.5))
    assert torch.equal(head.encode_all(graph), head_of().encode_all(graph))
    targets = torch.arange(graph.num_nodes)
    first, second = (sampled(head.train(), graph, targets, "full") for _ in range(2))
    assert not torch.allclose(first, second)


def all_at_once(head: HeadEncoder, tail: TailEncoder, graph: MessageGraph) -> tuple[Tensor, Tensor]:
    """Encodes every node without blocks; statistics of the graph are then those of the rows at hand."""
    x = graph.features
    for layer, (convolution, finish) in enumerate(zip(head.convolutions, head.finishes, strict=True)):
        x = finish(convolution(x, x, graph.adjacency), x if layer else None)
    return x.detach(), tail(graph, slice(None), head.convolutions).detach()


ENCODERS = ["sage", "gat", "pyg:GATv2Conv"]
STYLES = pytest.mark.parametrize("style", [STYLE, GRAPH_STYLE], ids=["running", "graph"])


@pytest.mark.parametrize("elements", [1, 40, 300, 2**26])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("layers", [1, 3])
@STYLES
def test_blocks_do_not_change_the_encoding(
    encoder: str, elements: int, layers: int, style: LayerStyle, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = message_graph(random_view(12, 30), IN)
    head, tail = head_of(encoder, layers, style), tail_of(layers, style)
    heads, tails = all_at_once(head, tail, graph)
    state = {name: value.clone() for name, value in [*head.state_dict().items(), *tail.state_dict().items()]}
    monkeypatch.setattr(all_nodes, "BLOCK_ELEMENTS", elements)
    torch.testing.assert_close(head.encode_all(graph), heads, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(tail.encode_all(graph, head.convolutions), tails, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(state[name], value) for name, value in tail.state_dict().items())
    assert (head.finishes[0].norm.statistics, tail.finishes[0].norm.statistics) == (style.statistics,) * 2


@pytest.mark.parametrize("switches", [{"residual": False}, {"pre_encoding": False}, {"knowledge_transfer": False}])
def test_blocks_do_not_change_variants_of_the_tail(switches: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, head, tail = message_graph(random_view(25, 60), IN), head_of(), tail_of(style=GRAPH_STYLE, **switches)
    wanted = tail(graph, slice(None), head.convolutions).detach()
    monkeypatch.setattr(all_nodes, "BLOCK_ELEMENTS", 1)
    torch.testing.assert_close(tail.encode_all(graph, head.convolutions), wanted, rtol=1e-4, atol=1e-5)


class Cramped(SageConvolution):
    """Runs out of memory wherever it has more than so many rows."""

    def __init__(self, original: Convolution, rows: int) -> None:
        super().__init__(original.in_dim, original.out_dim)
        self.load_state_dict(original.state_dict())
        self.rows, self.most_rows = rows, 0

    def forward(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        self._allocate(x_target.shape[0])
        return super().forward(x_source, x_target, adjacency)

    def product_on_itself(self, x: Tensor) -> Product:
        self._allocate(x.shape[0])
        return super().product_on_itself(x)

    def _allocate(self, rows: int) -> None:
        if rows > self.rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        self.most_rows = max(self.most_rows, rows)


def cramped(head: HeadEncoder, rows: int) -> None:
    head.convolutions = nn.ModuleList(Cramped(convolution, rows) for convolution in head.convolutions)


@pytest.mark.parametrize("rows", [1, 3, 24])
@STYLES
def test_blocks_shrink_where_memory_does_not_last(rows: int, style: LayerStyle) -> None:
    graph = message_graph(random_view(25, 60), IN)
    head, tail = head_of(style=style), tail_of(style=style)
    heads, tails = all_at_once(head, tail, graph)
    cramped(head, rows)
    torch.testing.assert_close(head.encode_all(graph), heads, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(tail.encode_all(graph, head.convolutions), tails, rtol=1e-4, atol=1e-5)
    assert all(1 <= convolution.most_rows <= rows for convolution in head.convolutions)


@STYLES
def test_where_no_row_fits_it_says_what_to_do(style: LayerStyle) -> None:
    graph, head, tail = message_graph(random_view(25, 60), IN), head_of(style=style), tail_of(style=style)
    cramped(head, 0)
    with pytest.raises(ConfigError, match=r"too little memory for encoding all nodes as heads.*--device cpu"):
        head.encode_all(graph)
    with pytest.raises(ConfigError, match=r"as tails \(CUDA out of memory\).*smaller `hidden`"):
        tail.encode_all(graph, head.convolutions)


def test_statistics_of_the_graph_are_those_of_a_training_batch_of_all_nodes() -> None:
    graph = message_graph(random_view(25, 60), IN)
    head, tail = head_of(style=GRAPH_STYLE), tail_of(style=GRAPH_STYLE)
    heads, tails = head.encode_all(graph), tail.encode_all(graph, head.convolutions)
    nodes = torch.arange(25)
    torch.testing.assert_close(sampled(head.train(), graph, nodes, "full"), heads, rtol=1e-4, atol=1e-5)
    trained = tail.train()(graph, nodes, head.convolutions)
    torch.testing.assert_close(trained, tails, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("size", [1, 70, 300, 2000, 10**6])
def test_blocks_of_rows_keep_to_their_size_and_leave_none_out(encoder: str, size: int) -> None:
    graph = message_graph(random_view(25, 60), IN)
    costs, ends = row_costs(head_of(encoder).convolutions[0], graph.adjacency.row_ptr), [0]
    assert (costs.diff() > graph.adjacency.degrees).all()
    while ends[-1] < 25:
        ends.append(last_row(costs, ends[-1], size))
        first, last = ends[-2:]
        assert first < last
        assert costs[last] - costs[first] <= size or last == first + 1
        assert last == 25 or costs[last + 1] - costs[first] > size  # another row would have been too many
    assert ends[-1] == 25


def test_knowledge_transfer_leaves_the_shared_branch_without_weights() -> None:
    shared = {name for name, _ in tail_of().named_parameters()}
    own = {name for name, _ in tail_of(knowledge_transfer=False).named_parameters()}
    assert own - shared == {
        f"own.{layer}.{part}.{kind}"
        for layer in (0, 1)
        for part in ("neighbours", "itself")
        for kind in ("weight", "bias")
    }
    assert shared < own


@pytest.mark.parametrize("encoder", ["sage", "gat", "pyg:GATv2Conv"])
def test_the_shared_branch_is_the_head_on_the_identity_graph(encoder: str) -> None:
    """With the tail's norms in the head, its last unit rows undone by the tail's own, both are one function."""
    graph = message_graph(random_view(), IN)
    head, tail = head_of(encoder), tail_of(residual=False)
    head.finishes.load_state_dict(tail.finishes.state_dict())
    nodes = torch.arange(graph.num_nodes)
    nobody = GraphView(graph.num_nodes, True, torch.empty(2, 0, dtype=torch.int64))
    lonely = MessageGraph.build(nobody, graph.pre_encoded, "row", 2)  # every node's only neighbour is itself
    wanted = sampled(head, lonely, nodes, "full")
    torch.testing.assert_close(tail(graph, nodes, head.convolutions).detach(), wanted, rtol=1e-4, atol=1e-5)


def test_the_head_learns_from_the_shared_branch() -> None:
    graph = message_graph(random_view(), IN)
    head, tail = head_of().train(), tail_of().train()
    weights = torch.randn(graph.num_nodes, DIM, generator=torch.Generator().manual_seed(0))
    (tail(graph, torch.arange(graph.num_nodes), head.convolutions) * weights).sum().backward()
    for convolution in head.convolutions:
        for parameter in convolution.parameters():
            # GraphNorm with α ≠ 1 sees the bias too, so no parameter is left without a gradient.
            assert parameter.grad is not None
            assert parameter.grad.abs().max() > 1e-6
    assert all(parameter.grad is None for parameter in head.finishes.parameters())


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("pre_encoding", [True, False])
def test_branches_read_what_the_method_says(residual: bool, pre_encoding: bool) -> None:
    """Each input is changed alone: the output must change exactly where the method reads that input."""
    graph = message_graph(random_view(), IN)
    head, tail = head_of(), tail_of(residual=residual, pre_encoding=pre_encoding)
    nodes = torch.arange(graph.num_nodes)
    before = tail(graph, nodes, head.convolutions)
    other = message_graph(random_view(seed=5), IN)  # same X, another graph, so another Â^L X
    assert torch.equal(other.features, graph.features)
    same = torch.allclose(tail(other, nodes, head.convolutions), before, atol=1e-6)
    assert same == (not pre_encoding)
    assert (tail.residual_linears is not None) == residual


def test_a_tail_is_the_unit_sum_of_its_branches() -> None:
    graph = message_graph(random_view(), IN)
    head, tail = head_of(layers=1), tail_of(layers=1)
    nodes = torch.tensor([4, 0, 19])

    def normed(h: Tensor, finish: nn.Module) -> Tensor:
        norm = finish.norm
        spread = (norm.running_spread + 1e-5).sqrt()
        return (h - norm.alpha * norm.running_mean) / spread * norm.gamma + norm.beta

    w1, w2 = head.convolutions[0].neighbours, head.convolutions[0].itself
    smooth, rough = graph.pre_encoded[nodes], (graph.features - graph.pre_encoded)[nodes]
    shared = normed(w1(smooth) + w2(smooth), tail.finishes[0])
    residual = normed(tail.residual_linears[0](rough), tail.residual_finishes[0])
    wanted = unit(shared + residual)
    torch.testing.assert_close(tail(graph, nodes, head.convolutions), wanted, rtol=1e-4, atol=1e-5)


def test_tails_of_a_slice_and_of_numbers_are_the_same() -> None:
    graph = message_graph(random_view(), IN)
    head, tail = head_of(), tail_of()
    by_slice = tail(graph, slice(3, 9), head.convolutions)
    torch.testing.assert_close(by_slice, tail(graph, torch.arange(3, 9), head.convolutions))
    torch.testing.assert_close(by_slice, tail.encode_all(graph, head.convolutions)[3:9], rtol=1e-4, atol=1e-5)
