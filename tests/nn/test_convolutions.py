"""Convolutions against PyTorch Geometric's on shared weights, and on the identity graph."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric import nn as pyg

from headtail.errors import ConfigError
from headtail.graph.csr import CSR
from headtail.nn.convolutions import GatConvolution, SageConvolution, make_convolution
from random_graphs import dense, message_graph, random_view

IN, OUT = 6, 4
ENCODERS = ["sage", "gat", "pyg:SAGEConv", "pyg:GATv2Conv", "pyg:TransformerConv"]


def bipartite(targets: int, sources: int, seed: int) -> CSR:
    """Random rows of at least one entry, weighted as a mean."""
    generator = torch.Generator().manual_seed(seed)
    cells = torch.rand(targets, sources, generator=generator) < 0.3
    cells[torch.arange(targets), torch.randint(sources, (targets,), generator=generator)] = True
    csr = CSR.from_links(cells.nonzero().T, targets, sources)
    return csr.with_weight((1.0 / csr.degrees)[csr.row])


def full_graph() -> CSR:
    return message_graph(random_view(25, 80)).adjacency


ADJACENCIES = pytest.mark.parametrize(
    "adjacency",
    [bipartite(5, 9, 0), bipartite(1, 3, 1), bipartite(30, 60, 2), full_graph()],
    ids=["5×9", "1×3", "30×60", "full"],
)


def inputs(adjacency: CSR) -> tuple[Tensor, Tensor, Tensor]:
    """Returns sources, targets (the first sources) and the edge index of PyG: source → target."""
    x = torch.randn(adjacency.num_cols, IN, generator=torch.Generator().manual_seed(5))
    return x, x[: adjacency.num_rows], torch.stack([adjacency.col, adjacency.row])


def randomise(module: torch.nn.Module) -> None:
    """Moves every parameter off its initial value, so that biases count."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))


@ADJACENCIES
def test_sage_equals_pyg(adjacency: CSR) -> None:
    ours, theirs = SageConvolution(IN, OUT), pyg.SAGEConv((IN, IN), OUT, aggr="mean")
    randomise(ours)
    with torch.no_grad():
        theirs.lin_l.weight.copy_(ours.neighbours.weight)
        theirs.lin_l.bias.copy_(ours.neighbours.bias + ours.itself.bias)
        theirs.lin_r.weight.copy_(ours.itself.weight)
    source, target, edges = inputs(adjacency)
    wanted = theirs((source, target), edges)
    torch.testing.assert_close(ours(source, target, adjacency), wanted, rtol=1e-4, atol=1e-5)


@ADJACENCIES
def test_gat_equals_pyg(adjacency: CSR) -> None:
    ours, theirs = GatConvolution(IN, OUT), pyg.GATConv(IN, OUT, heads=1, add_self_loops=False)
    randomise(ours)
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.neighbours.weight)
        theirs.bias.copy_(ours.neighbours.bias)
        theirs.att_src.copy_(ours.attend_source[None])
        theirs.att_dst.copy_(ours.attend_target[None])
    source, target, edges = inputs(adjacency)
    source.requires_grad_()
    wanted, found = theirs((source, target), edges) + ours.itself(target), ours(source, target, adjacency)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(6))
    ends = [ours.neighbours.weight, ours.neighbours.bias, ours.attend_source, ours.attend_target, source]
    of_ours = torch.autograd.grad(found, ends, weights)
    ends = [theirs.lin.weight, theirs.bias, theirs.att_src, theirs.att_dst, source]
    for one, other in zip(of_ours, torch.autograd.grad(wanted, ends, weights), strict=True):
        torch.testing.assert_close(one, other.view_as(one), rtol=1e-4, atol=1e-4)


def test_gat_attention_depends_on_the_target() -> None:
    # Without the LeakyReLU the target's term would cancel in the softmax.
    conv = GatConvolution(IN, OUT)
    randomise(conv)
    adjacency = CSR(torch.tensor([0, 3, 6]), torch.tensor([0, 1, 2, 0, 1, 2]), 3)
    x = torch.randn(3, IN, generator=torch.Generator().manual_seed(0))
    targets = torch.stack([3 * x[0], -3 * x[0]])
    attended = conv(x, targets, adjacency) - conv.itself(targets)
    assert not torch.allclose(attended[0], attended[1], atol=1e-3)


@pytest.mark.parametrize("normalisation", ["column", "symmetric"])
def test_sage_follows_the_weights_of_the_adjacency(normalisation: str) -> None:
    adjacency = message_graph(random_view(25, 80), normalisation=normalisation).adjacency
    conv = SageConvolution(IN, OUT)
    randomise(conv)
    x = inputs(adjacency)[0]
    mixed = torch.from_numpy(dense(adjacency) @ x.numpy().astype(np.float64)).float()
    wanted = conv.neighbours(mixed) + conv.itself(x)
    torch.testing.assert_close(conv(x, x, adjacency), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SAGEConv", "GATv2Conv", "TransformerConv", "GraphConv", "GATConv"])
@ADJACENCIES
def test_pyg_convolutions_are_themselves(name: str, adjacency: CSR) -> None:
    ours = make_convolution(f"pyg:{name}", IN, OUT)
    options = {"add_self_loops": False} if name in ("GATConv", "GATv2Conv") else {}
    theirs = getattr(pyg, name)((IN, IN), OUT, **options)
    theirs.load_state_dict({key.removeprefix("conv."): value for key, value in ours.state_dict().items()})
    source, target, edges = inputs(adjacency)
    assert torch.equal(ours(source, target, adjacency), theirs((source, target), edges))
    loops = torch.arange(target.shape[0]).repeat(2, 1)
    assert torch.equal(ours.on_itself(target), theirs((target, target), loops))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_on_itself_is_the_convolution_on_the_identity_graph(encoder: str) -> None:
    conv = make_convolution(encoder, IN, OUT)
    randomise(conv)
    x = torch.randn(11, IN, generator=torch.Generator().manual_seed(5))
    identity = CSR(torch.arange(12), torch.arange(11), 11, torch.ones(11))
    torch.testing.assert_close(conv.on_itself(x), conv(x, x, identity), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_gradients_of_the_identity_form(encoder: str) -> None:
    conv = make_convolution(encoder, IN, OUT)
    randomise(conv)
    x = torch.randn(11, IN, generator=torch.Generator().manual_seed(5))
    identity = CSR(torch.arange(12), torch.arange(11), 11, torch.ones(11))
    weights = torch.randn(11, OUT, generator=torch.Generator().manual_seed(6))
    parameters = list(conv.parameters())
    sums = [(out * weights).sum() for out in (conv.on_itself(x), conv(x, x, identity))]
    # Attention over one neighbour is 1 whatever its parameters, so the folded form need not touch them.
    folded = torch.autograd.grad(sums[0], parameters, materialize_grads=True)
    explicit = torch.autograd.grad(sums[1], parameters, materialize_grads=True)
    for one, other in zip(folded, explicit, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("encoder", ["sage", "gat"])
def test_weights_are_glorot_and_biases_zero(encoder: str) -> None:
    torch.manual_seed(0)
    conv = make_convolution(encoder, 200, 100)
    bound = (6 / 300) ** 0.5
    for layer in (conv.neighbours, conv.itself):
        assert isinstance(layer, torch.nn.Linear)
        assert layer.bias.count_nonzero() == 0
        assert layer.weight.abs().max() <= bound
        torch.testing.assert_close(layer.weight.std().item(), bound / 3**0.5, rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("gatt", "unknown encoder 'gatt'; did you mean 'gat'?"),
        ("pyg:GATv3Conv", "did you mean 'GATv2Conv'?"),
        ("pyg:", "unknown encoder 'pyg:'"),
        ("pyg:utils", "unknown encoder"),
        ("pyg:GCNConv", "cannot serve as a bipartite convolution"),
        ("pyg:ChebConv", "cannot serve as a bipartite convolution"),
        ("pyg:GINConv", "cannot serve as a bipartite convolution"),
        ("pyg:MessagePassing", "cannot serve as a bipartite convolution"),
    ],
)
def test_names_that_cannot_serve_are_refused(encoder: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_convolution(encoder, IN, OUT)
    assert message in str(caught.value)
