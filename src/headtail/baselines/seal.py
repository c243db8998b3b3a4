"""SEAL: a graph classifier (DGCNN) on the labelled subgraph around each pair."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.baselines.learned import BASELINES
from headtail.baselines.local import LocalMethod, LocalModel, Readout, make_extractor, oriented, propagate
from headtail.baselines.subgraphs import Subgraphs, drnl
from headtail.config import Config
from headtail.graph.csr import CSR
from headtail.graph.task import LinkTask
from headtail.nn.convolutions import linear
from headtail.training.learner import resolve_auto

# Double-radius labels from this one on share a row of the table; it is that of two distances that sum to 15.
LABELS = 64
# Of the subgraphs, the share that sorted pooling does not cut short, over so many sampled training links.
UNCUT, SAMPLED_LINKS = 0.6, 1000
# The convolutions over sorted nodes: channels, and the width of the second one.
CHANNELS, WIDTH = (16, 32), 5
READOUT_HIDDEN = 128


class SealModel(LocalModel):
    """Graph convolutions with tanh, nodes sorted by the last one, then convolutions over the k first (DGCNN).

    Args:
        pooled: k, the nodes that pooling keeps.
        directed: the tail has a label of its own, so that the model can tell it from the head.
    """

    def __init__(
        self, in_dim: int, hidden: int, layers: int, pooled: int, readout_layers: int, dropout: float, directed: bool
    ) -> None:
        super().__init__(in_dim, hidden)
        self.pooled, self.directed, self.convolutions = pooled, directed, layers + 1
        # A row per label is what a one-hot column and the first layer's weights come to.
        self.labels = nn.Embedding(LABELS + 1, hidden)
        nn.init.xavier_uniform_(self.labels.weight)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.layers = nn.ModuleList(linear(hidden, hidden) for _ in range(layers - 1))
        self.last = linear(hidden, 1)
        self.over_nodes = nn.Linear(hidden * layers + 1, CHANNELS[0])
        self.over_places = nn.Conv1d(CHANNELS[0], CHANNELS[1], WIDTH)
        self.readout = Readout((pooled // 2 - WIDTH + 1) * CHANNELS[1], READOUT_HIDDEN, readout_layers, dropout)

    def forward(self, subgraphs: Subgraphs, x: Tensor) -> Tensor:
        adjacency, loop = subgraphs.normalised(self_loops=True)
        # Biases are added after Â, the rows of which do not sum to 1.
        labelled = x + F.embedding(self._label(subgraphs), self.labels.weight)
        h = torch.tanh(convolve(adjacency, loop, labelled) + self.bias)
        outputs = [h]
        for layer in [*self.layers, self.last]:
            h = torch.tanh(convolve(adjacency, loop, F.linear(h, layer.weight)) + layer.bias)
            outputs.append(h)
        z = F.relu(self.over_nodes(sort_pool(subgraphs, torch.cat(outputs, dim=1), self.pooled)))
        z = F.relu(self.over_places(F.max_pool1d(z.transpose(1, 2), 2)))
        logits: Tensor = self.readout(z.flatten(1)).squeeze(1)
        return logits

    def _label(self, subgraphs: Subgraphs) -> Tensor:
        label = drnl(subgraphs).clamp(max=LABELS - 1)
        if self.directed:
            label[subgraphs.ends[1]] = LABELS
        return label


def convolve(adjacency: CSR, loop: Tensor, x: Tensor) -> Tensor:
    """Returns Â·x with self-loops, Â = D^-½ (A + I) D^-½."""
    return propagate(adjacency, x) + loop[:, None] * x


def sort_pool(subgraphs: Subgraphs, x: Tensor, keep: int) -> Tensor:
    """Returns [P, keep, d]: the rows of x [M, d] of every pair, those with the highest last column first.

    Pairs with fewer nodes end with zeros. Rows that tie stay in the order of their nodes, so that a pair's score
    does not depend on its batch.
    """
    order = torch.argsort(x[:, -1].detach(), descending=True, stable=True)
    order = order[torch.argsort(subgraphs.pair[order], stable=True)]
    rank = torch.arange(order.numel(), device=x.device) - subgraphs.first[subgraphs.pair]
    kept = rank < keep
    place = (subgraphs.pair * keep + rank)[kept]
    pooled = x.new_zeros(subgraphs.num_pairs * keep, x.shape[1])
    return pooled.index_copy(0, place, x[order[kept]]).view(-1, keep, x.shape[1])


def pooled_nodes(task: LinkTask, config: Config) -> int:
    """Returns k such that 60 % of the training subgraphs have at most k nodes; at least 10.

    Judged by evenly spaced training links and as many unlinked heads and tails, without chance, so that a stored
    model is rebuilt with the same shape.
    """
    view = task.train_view
    heads, tails = view.links[:, :: max(1, view.links.shape[1] // SAMPLED_LINKS)]
    heads, tails = torch.cat([heads, heads]), torch.cat([tails, tails.roll(tails.numel() // 2)])
    extractor = make_extractor(view, config.subgraphs, seed=0)
    sizes = extractor.extract(oriented(heads, tails, view.directed)).sizes.sort().values
    return max(10, int(sizes[math.ceil(UNCUT * sizes.numel()) - 1]))


@BASELINES.register("seal")
def make_seal(task: LinkTask, config: Config) -> LocalMethod:
    """SEAL: classifies the subgraph around each pair, nodes labelled by their distance to both ends."""
    config = resolve_auto(config, task.metric)
    m = config.model
    pooled = pooled_nodes(task, config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = SealModel(
            task.features.shape[1], m.hidden, m.layers, pooled, m.scorer_layers, m.dropout, task.graph.directed
        )
    return LocalMethod("SEAL", task, config, model)
