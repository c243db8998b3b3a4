"""Node2vec: embeddings from random walks (skip-gram with negative sampling), and a link scorer over them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.baselines.learned import BASELINES
from headtail.baselines.mf import FIRST_SPREAD, EmbeddingLinks
from headtail.baselines.walks import Walker
from headtail.config import Config, ModelConfig, WalksConfig
from headtail.contract import Scorer
from headtail.graph.csr import CSR
from headtail.graph.kept import Kept
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.nn.sparse import aggregate
from headtail.sampling.batches import EdgeBatches
from headtail.sampling.sampler import Batch, PairBatches
from headtail.training.counters import Counters
from headtail.training.learner import Learner, resolve_auto
from headtail.training.steps import Loss

# Random nodes that every walk is contrasted with.
STRANGERS_PER_WALK = 16
# Walks are dealt into batches of at most this many logits, so memory does not grow with the graph.
LOGITS_PER_BATCH = 2**23


@dataclass(frozen=True)
class WalkBatch:
    """Walks [S, length] with the strangers [S, K] of each, and training links with negatives."""

    walks: Tensor
    strangers: Tensor
    links: Batch


@dataclass(frozen=True)
class WalkBatches:
    """Deals an epoch's walks evenly over its batches of links; every node with neighbours starts equally many."""

    walker: Walker
    settings: WalksConfig
    links: PairBatches

    def __len__(self) -> int:
        return len(self.links)

    def epoch(self, generator: torch.Generator) -> Iterator[WalkBatch]:
        """Yields the batches of one epoch, the walks drawn anew."""
        rows = self.walker.neighbours
        starts = (rows.degrees > 0).nonzero().squeeze(1).repeat(self.settings.walks_per_node)
        starts = starts[torch.randperm(starts.numel(), generator=generator, device=starts.device)]
        for chunk, links in zip(starts.tensor_split(len(self)), self.links.epoch(generator), strict=True):
            walks = self.walker.walk(chunk, self.settings.walk_length, generator)
            size = (chunk.numel(), STRANGERS_PER_WALK)
            strangers = torch.randint(rows.num_rows, size, generator=generator, device=chunk.device)
            yield WalkBatch(walks, strangers, links)


class WalkModel(nn.Module):
    """A table of embeddings that learns from walks alone, and what scores links over it."""

    def __init__(self, num_nodes: int, directed: bool, settings: ModelConfig, window: int) -> None:
        super().__init__()
        self.window = window
        self.table = nn.Parameter(FIRST_SPREAD * torch.randn(num_nodes, settings.hidden))
        self.links = EmbeddingLinks(directed, settings)

    def walk_loss(self, walks: Tensor, strangers: Tensor) -> Tensor:
        """Skip-gram: nodes of a walk within the window are alike, strangers are not; each weighs half."""
        length = walks.shape[1]
        x = rows_of(self.table, torch.cat([walks, strangers], dim=1))
        logits = x[:, :length] @ x.transpose(1, 2)  # [S, length, length + K]
        near = self._near(walks)
        contexts = near.sum(dim=2)  # [S, length], how often each node of a walk is a centre
        alike = (F.softplus(-logits[:, :, :length]) * near).sum()
        unlike = (F.softplus(logits[:, :, length:]).mean(dim=2) * contexts).sum()
        return (alike + unlike) / contexts.sum().clamp(min=1)

    def _near(self, walks: Tensor) -> Tensor:
        """float32 [S, length, length], 1 where two places of a walk are near and hold different nodes."""
        place = torch.arange(walks.shape[1], device=walks.device)
        apart = (place[:, None] - place).abs()
        # A walk that comes back meets the node it was at before, which says nothing about links.
        near = (apart > 0) & (apart <= self.window) & (walks[:, :, None] != walks[:, None, :])
        return near.float()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the logits of the positives [P] and negatives [Q]; the embeddings get no gradient from them."""
        positive, negative = self.links(self.table.detach().index_select(0, batch.nodes), batch)
        return positive, negative


def rows_of(table: Tensor, nodes: Tensor) -> Tensor:
    """Returns table[nodes] as [*nodes, r], with a gradient that adds repeated rows in a fixed order."""
    flat = nodes.reshape(-1)
    one_each = CSR(torch.arange(flat.numel() + 1, device=flat.device), flat, table.shape[0])
    return aggregate(one_each, table).view(*nodes.shape, table.shape[1])


@BASELINES.register("node2vec")
class Node2vec(Learner[WalkBatch]):
    """Node2vec: embeddings learned from random walks, and a scorer over them learned from the links.

    Walks follow links both ways, so the embeddings know no direction. Where links have one, the scorer's own layers
    for heads and tails find it. Both parts learn in the same epochs, but the embeddings from the walks alone.
    Links train the scorer only, with no rows to save work on: they are always drawn edge by edge.
    """

    model: WalkModel

    def __init__(self, task: LinkTask, config: Config) -> None:
        config = resolve_auto(config, task.metric)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            model = WalkModel(task.graph.num_nodes, task.graph.directed, config.model, config.walks.window)
        super().__init__(task, config, model)

    @property
    def summary(self) -> str:
        w = self.config.walks
        return f"Node2vec, embeddings of {self.config.model.hidden}, walks of {w.walk_length} nodes, window {w.window}"

    def batches(self) -> WalkBatches:
        s, w = self.config.sampling, self.config.walks
        view = self.task.train_view
        supervision, neighbours = view.out_rows.to(self.device), view.neighbours.to(self.device)
        walks = int((neighbours.degrees > 0).sum()) * w.walks_per_node
        walks_per_batch = max(1, LOGITS_PER_BATCH // (w.walk_length * (w.walk_length + STRANGERS_PER_WALK)))
        # Shorter batches of links where the walks need more batches than the links would.
        links_per_batch = max(1, supervision.col.numel() // -(-walks // walks_per_batch))
        links_per_batch = min(s.links_per_batch, links_per_batch)
        pairs = PairBatches(EdgeBatches(supervision, links_per_batch), s.negatives, s.negatives_per_positive)
        return WalkBatches(Walker(neighbours, w.return_weight, w.explore_weight), w, pairs)

    def loss(self, batch: WalkBatch) -> Loss:
        positive, negative = self.model(batch.links)
        loss = self.link_loss(positive, negative, batch.links.negative_of)
        return replace(loss, value=loss.value + self.model.walk_loss(batch.walks, batch.strangers))

    def count(self, batch: WalkBatch, counters: Counters) -> None:
        counters.add(batch.links, mlp_encodes_nodes=True)
        if self.model.links.head is not None:  # rows are encoded once more, as heads
            counters.mlp_node_encodings += batch.links.num_rows

    def encode(self, view: GraphView) -> Scorer:
        """Scores with what was learned from the training links, whatever else `view` shows."""
        self.model.eval()
        return self.model.links.pair_scorer(self.model.table, self.task.graph.directed)

    def reopen(self, view: GraphView, kept: Kept) -> Scorer:
        self.model.eval()
        return self.model.links.kept_scorer(kept, self.model.table, view.directed) or self.encode(view)
