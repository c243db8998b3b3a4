"""DE-GNN: a GNN in the subgraph around each pair, told every node's distance to both ends (distance encoding)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.baselines.learned import BASELINES
from headtail.baselines.local import LocalMethod, LocalModel, Readout, propagate
from headtail.baselines.subgraphs import UNREACHABLE, Subgraphs, distances
from headtail.config import Config
from headtail.graph.task import LinkTask
from headtail.nn.convolutions import linear
from headtail.training.learner import resolve_auto

# Larger distances are encoded as this one, and nodes that are not reached as one more.
MAX_DISTANCE = 3


class DistanceModel(LocalModel):
    """Layers h·W1 + Â·h·W2 over features and distance encodings; reads out both ends and the mean of all nodes.

    The encodings of the distances to the two ends are summed: a set, as in the paper. In directed graphs each end has
    a table of its own, so that the model can tell head from tail.
    """

    def __init__(
        self, in_dim: int, hidden: int, layers: int, readout_layers: int, dropout: float, directed: bool
    ) -> None:
        super().__init__(in_dim, hidden)
        self.convolutions, self.dropout = layers, dropout
        self.encodings = nn.ModuleList(nn.Embedding(MAX_DISTANCE + 2, hidden) for _ in range(2 if directed else 1))
        self.own = nn.ModuleList(linear(hidden, hidden) for _ in range(layers))
        self.neighbours = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(layers))
        for part in (*self.encodings, *self.neighbours):
            nn.init.xavier_uniform_(part.get_parameter("weight"))
        self.readout = Readout(2 * hidden, hidden, readout_layers, dropout)

    def forward(self, subgraphs: Subgraphs, x: Tensor) -> Tensor:
        adjacency, _ = subgraphs.normalised(self_loops=False)
        h = x + self._encoded(subgraphs)
        for own, neighbours in zip(self.own, self.neighbours, strict=True):
            h = F.relu(own(h) + propagate(adjacency, neighbours(h)))
            h = F.dropout(h, self.dropout, self.training)
        head, tail = subgraphs.ends
        logits: Tensor = self.readout(torch.cat([h[head] * h[tail], pair_mean(subgraphs, h)], dim=1)).squeeze(1)
        return logits

    def _encoded(self, subgraphs: Subgraphs) -> Tensor:
        """Returns [M, hidden], the sum of the encodings of both distances."""
        found = encoded_distances(subgraphs)
        # As paths avoid nothing, an end also tells how far the other one is.
        head, tail = self.encodings[0], self.encodings[-1]
        assert isinstance(head, nn.Embedding)
        assert isinstance(tail, nn.Embedding)
        return F.embedding(found[:, 0], head.weight) + F.embedding(found[:, 1], tail.weight)


def encoded_distances(subgraphs: Subgraphs) -> Tensor:
    """Returns int64 [M, 2] within 0 … MAX_DISTANCE + 1, the last of which means unreachable."""
    found = distances(subgraphs, masked=False)
    return torch.where(found == UNREACHABLE, MAX_DISTANCE + 1, found.clamp(max=MAX_DISTANCE))


def pair_mean(subgraphs: Subgraphs, x: Tensor) -> Tensor:
    """Returns [P, d], the mean of x [M, d] over the nodes of every pair."""
    everything = torch.arange(x.shape[0], device=x.device)
    return F.embedding_bag(everything, x, subgraphs.first, mode="mean", include_last_offset=True)


@BASELINES.register("degnn")
def make_degnn(task: LinkTask, config: Config) -> LocalMethod:
    """DE-GNN: a GNN in the subgraph around each pair, with encoded distances to both ends as features."""
    config = resolve_auto(config, task.metric)
    m = config.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = DistanceModel(
            task.features.shape[1], m.hidden, m.layers, m.scorer_layers, m.dropout, task.graph.directed
        )
    return LocalMethod("DE-GNN", task, config, model)
