"""SEAL: the contract, and its parts against PyTorch Geometric's."""

import pytest
import torch
from local_case import LocalCase
from torch import nn
from torch_geometric.nn import GCNConv, SortAggregation

from headtail.baselines.seal import SealModel, convolve, pooled_nodes, sort_pool
from headtail.baselines.subgraphs import SubgraphExtractor, Subgraphs, drnl
from headtail.config import make_config
from random_graphs import random_view
from tiny_runs import predictor, small_graph, trained


def some_subgraphs(seed: int = 0) -> Subgraphs:
    view = random_view(25, 60, directed=False, seed=seed)
    pairs = torch.randint(25, (2, 40), generator=torch.Generator().manual_seed(seed))
    return SubgraphExtractor(view.neighbours, 1, None, seed).extract(pairs)


class TestSeal(LocalCase):
    name = "seal"


def test_convolution_equals_pyg() -> None:
    subgraphs = some_subgraphs()
    layer = GCNConv(6, 4)
    nn.init.normal_(layer.bias)
    x = torch.randn(subgraphs.nodes.numel(), 6)
    edges = torch.stack([subgraphs.adjacency.row, subgraphs.adjacency.col])
    found = convolve(*subgraphs.normalised(self_loops=True), layer.lin(x)) + layer.bias
    torch.testing.assert_close(found, layer(x, edges))


@pytest.mark.parametrize("keep", [1, 5, 100])
def test_sorted_pooling_equals_pyg(keep: int) -> None:
    subgraphs = some_subgraphs()
    x = torch.randn(subgraphs.nodes.numel(), 3)
    wanted = SortAggregation(keep)(x, subgraphs.pair, dim_size=subgraphs.num_pairs)
    torch.testing.assert_close(sort_pool(subgraphs, x, keep).flatten(1), wanted)


def test_ties_are_sorted_by_place() -> None:
    subgraphs = some_subgraphs()
    x = torch.stack([torch.arange(subgraphs.nodes.numel()).float(), torch.ones(subgraphs.nodes.numel())], dim=1)
    pooled = sort_pool(subgraphs, x, 4)
    for pair in range(subgraphs.num_pairs):
        size = min(4, int(subgraphs.sizes[pair]))
        first = float(subgraphs.first[pair])
        assert pooled[pair, :size, 0].tolist() == [first + place for place in range(size)]


def test_the_whole_model_equals_one_made_of_pyg_layers() -> None:
    """DGCNN as SEAL describes it: one-hot labels beside features, GCN with tanh, sorted pooling, convolutions."""
    torch.manual_seed(0)
    subgraphs = some_subgraphs()
    model = SealModel(in_dim=5, hidden=6, layers=3, pooled=12, readout_layers=2, dropout=0.0, directed=False).eval()
    for layer in [*model.layers, model.last]:
        nn.init.normal_(layer.get_parameter("bias"))
    nn.init.normal_(model.features.weight)
    features = torch.randn(25, 5)
    labels = nn.functional.one_hot(drnl(subgraphs), model.labels.num_embeddings).float()
    edges = torch.stack([subgraphs.adjacency.row, subgraphs.adjacency.col])
    first = GCNConv(labels.shape[1] + 5, 6)
    first.bias = nn.init.normal_(model.bias)
    first.lin.weight = nn.Parameter(torch.cat([model.labels.weight.T, model.features.weight], dim=1))
    outputs = [torch.tanh(first(torch.cat([labels, features[subgraphs.nodes]], dim=1), edges))]
    for layer in [*model.layers, model.last]:
        assert isinstance(layer, nn.Linear)
        convolution = GCNConv(layer.in_features, layer.out_features)
        convolution.lin.weight, convolution.bias = layer.weight, layer.bias
        outputs.append(torch.tanh(convolution(outputs[-1], edges)))
    width = sum(output.shape[1] for output in outputs)
    pooled = SortAggregation(12)(torch.cat(outputs, dim=1), subgraphs.pair, dim_size=subgraphs.num_pairs)
    over_nodes = nn.Conv1d(1, 16, width, width)
    over_nodes.weight, over_nodes.bias = nn.Parameter(model.over_nodes.weight[:, None, :]), model.over_nodes.bias
    z = nn.functional.max_pool1d(torch.relu(over_nodes(pooled[:, None, :])), 2, 2)
    wanted = model.readout(torch.relu(model.over_places(z)).flatten(1)).squeeze(1)
    torch.testing.assert_close(model.score(subgraphs, features), wanted, rtol=1e-4, atol=1e-5)


def test_pooling_keeps_the_nodes_of_three_fifths_of_the_subgraphs() -> None:
    config = make_config(settings={"method": "seal", "nodes_per_hop": "all"})
    task = trained(small_graph(), epochs=1).task
    view = task.train_view
    sizes = []
    neighbours = {node: set(view.neighbours.col[view.neighbours.row == node].tolist()) for node in range(60)}
    heads, tails = view.links.tolist()
    shifted = tails[-(len(tails) // 2) :] + tails[: -(len(tails) // 2)]
    for head, tail in [*zip(heads, tails, strict=True), *zip(heads, shifted, strict=True)]:
        sizes.append(len(neighbours[head] | neighbours[tail] | {head, tail}))
    pooled = pooled_nodes(task, config)
    assert sum(size <= pooled for size in sizes) >= 0.6 * len(sizes)
    assert sum(size <= pooled - 1 for size in sizes) < 0.6 * len(sizes)


def test_pooling_keeps_at_least_ten_nodes() -> None:
    task = predictor(epochs=1, method="seal", nodes_per_hop=1).fit(small_graph()).task
    assert pooled_nodes(task, make_config(settings={"method": "seal", "nodes_per_hop": 1})) == 10
