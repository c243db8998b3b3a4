"""DE-GNN: the contract, and its parts against their definitions and PyTorch Geometric's layers."""

import pytest
import torch
from local_case import LocalCase
from torch import nn
from torch_geometric.nn import TAGConv, global_mean_pool

from headtail.baselines.degnn import MAX_DISTANCE, DistanceModel, encoded_distances, pair_mean
from headtail.baselines.subgraphs import SubgraphExtractor, Subgraphs
from headtail.graph.view import GraphView
from random_graphs import as_links, random_view


def some_subgraphs(seed: int = 0) -> Subgraphs:
    view = random_view(25, 60, directed=False, seed=seed)
    pairs = torch.randint(25, (2, 40), generator=torch.Generator().manual_seed(seed))
    return SubgraphExtractor(view.neighbours, 1, None, seed).extract(pairs)


class TestDistanceEncoding(LocalCase):
    name = "degnn"


def test_distances_are_capped_and_unreachable_ones_told_apart() -> None:
    # 0 – 1 – 2 – 3 – 4 – 5, and 6 – 7 apart from it
    path = GraphView(8, False, as_links([(node, node + 1) for node in (0, 1, 2, 3, 4, 6)]))
    found = SubgraphExtractor(path.neighbours, 6, None, 0).extract(torch.tensor([[0], [6]]))
    encoded = dict(zip(found.nodes.tolist(), encoded_distances(found).tolist(), strict=True))
    far, never = MAX_DISTANCE, MAX_DISTANCE + 1
    assert [encoded[node][0] for node in range(8)] == [0, 1, 2, 3, far, far, never, never]
    assert [encoded[node][1] for node in range(8)] == [never] * 6 + [0, 1]


def test_mean_over_a_pair_equals_pyg() -> None:
    subgraphs = some_subgraphs()
    x = torch.randn(subgraphs.nodes.numel(), 4)
    torch.testing.assert_close(pair_mean(subgraphs, x), global_mean_pool(x, subgraphs.pair))


@pytest.mark.parametrize("directed", [True, False])
def test_the_whole_model_equals_one_made_of_pyg_layers(directed: bool) -> None:
    torch.manual_seed(0)
    subgraphs = some_subgraphs()
    model = DistanceModel(5, hidden=6, layers=2, readout_layers=2, dropout=0.0, directed=directed).eval()
    nn.init.normal_(model.features.weight)
    features = torch.randn(25, 5)
    tables = [model.encodings[side if directed else 0].get_parameter("weight") for side in (0, 1)]
    encoded = [
        nn.functional.one_hot(column, MAX_DISTANCE + 2).float() @ table
        for column, table in zip(encoded_distances(subgraphs).T, tables, strict=True)
    ]
    h = model.features(features[subgraphs.nodes]) + encoded[0] + encoded[1]
    edges = torch.stack([subgraphs.adjacency.row, subgraphs.adjacency.col])
    for own, neighbours in zip(model.own, model.neighbours, strict=True):
        layer = TAGConv(6, 6, K=1)
        layer.lins[0].weight, layer.bias = own.get_parameter("weight"), own.get_parameter("bias")
        layer.lins[1].weight = neighbours.get_parameter("weight")
        h = torch.relu(layer(h, edges))
    head, tail = subgraphs.ends
    read = torch.cat([h[head] * h[tail], global_mean_pool(h, subgraphs.pair)], dim=1)
    torch.testing.assert_close(model.score(subgraphs, features), model.readout(read).squeeze(1), rtol=1e-4, atol=1e-5)
