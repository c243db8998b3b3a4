"""What SEAL and DE-GNN share: a batch is pairs with a subgraph each, cut out as they come, and a GNN runs inside them.

Nothing that one pair computes serves another, which is what makes these methods costly, with row-wise batches too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.baselines.subgraphs import SubgraphExtractor, Subgraphs
from headtail.config import Config, SubgraphsConfig
from headtail.contract import Scorer
from headtail.graph.csr import CSR, row_pointers
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.nn.convolutions import linear
from headtail.sampling.batches import BATCHES, Positives
from headtail.sampling.negatives import NegativeSpace, draw_negatives
from headtail.training.counters import Counters
from headtail.training.learner import Learner
from headtail.training.steps import Loss

# Neighbours looked at per chunk of pairs when scoring: fills the device, and bounds its memory.
WORK_PER_CHUNK = {"cpu": 2**19, "cuda": 2**24}


class LocalModel(nn.Module, ABC):
    """Scores pairs by their subgraphs alone."""

    # Times that every node of a subgraph is encoded.
    convolutions: int

    def __init__(self, in_dim: int, hidden: int) -> None:
        super().__init__()
        self.features = nn.Linear(in_dim, hidden, bias=False)
        # Zero at first: wide or large features would drown the labels, which tell most, before these are learned.
        nn.init.zeros_(self.features.weight)

    @abstractmethod
    def forward(self, subgraphs: Subgraphs, x: Tensor) -> Tensor:
        """Returns logits [P], given the projected features x [M, hidden] of the subgraphs' nodes."""

    def score(self, subgraphs: Subgraphs, features: Tensor) -> Tensor:
        """Returns logits [P], given the features [N, d] of all nodes of the graph."""
        if subgraphs.nodes.numel() > features.shape[0]:  # nodes repeat: to project each once is cheaper
            x = F.embedding(subgraphs.nodes, self.features(features))
        else:
            x = self.features(features[subgraphs.nodes])
        logits: Tensor = self(subgraphs, x)
        return logits


class _Symmetric(torch.autograd.Function):
    """The product with a symmetric matrix, whose backward is the same product: no transposition to sort for."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: CSR) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency.matmul(x.contiguous())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.adjacency.matmul(grad.contiguous()), None


def propagate(adjacency: CSR, x: Tensor) -> Tensor:
    """Returns A·x for a symmetric A."""
    out: Tensor = _Symmetric.apply(x, adjacency)  # type: ignore[no-untyped-call]
    return out


class Readout(nn.Sequential):
    """Linear layers with ReLU and dropout between them, one logit."""

    def __init__(self, in_dim: int, hidden: int, layers: int, dropout: float) -> None:
        widths = [in_dim, *[hidden] * (layers - 1)]
        parts: list[nn.Module] = []
        for wide, narrow in pairwise(widths):
            parts += [linear(wide, narrow), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*parts, linear(widths[-1], 1))


@dataclass(frozen=True)
class LocalBatch:
    """Subgraphs of the positives, then of the negatives; negative_of [Q] is the positive each one belongs to."""

    subgraphs: Subgraphs
    num_positives: int
    negative_of: Tensor


@dataclass(frozen=True)
class LocalBatches:
    """Draws links, negatives and subgraphs, batch by batch.

    Attributes:
        supervision: training links, head → tail.
        kind: "rows" or "edges".
        links_per_epoch: links drawn for an epoch, None for all of them.
    """

    view: GraphView
    supervision: CSR
    kind: str
    links_per_batch: int
    links_per_epoch: int | None
    negatives: str
    negatives_per_positive: int
    subgraphs: SubgraphsConfig

    def __len__(self) -> int:
        links = self.supervision.col.numel()
        return -(-min(links, self.links_per_epoch or links) // self.links_per_batch)

    def epoch(self, generator: torch.Generator) -> Iterator[LocalBatch]:
        """Yields the batches of one epoch, all with one draw of subgraphs."""
        # One number per epoch is read back to the host; a fresh order of nodes draws other nodes from crowded hops.
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        extractor = make_extractor(self.view, self.subgraphs, seed)
        links = BATCHES[self.kind](self._some_links(generator), self.links_per_batch)
        for positives in links.epoch(generator):
            if positives.row.numel():
                yield self._batch(positives, extractor, generator)

    def _batch(self, positives: Positives, extractor: SubgraphExtractor, generator: torch.Generator) -> LocalBatch:
        space = NegativeSpace(self.supervision)
        negatives = draw_negatives(self.negatives, space, positives, self.negatives_per_positive, generator)
        heads = torch.cat([positives.row, negatives.row])
        tails = torch.cat([positives.col, negatives.col])
        subgraphs = extractor.extract(oriented(heads, tails, self.view.directed))
        return LocalBatch(subgraphs, positives.row.numel(), negatives.positive)

    def _some_links(self, generator: torch.Generator) -> CSR:
        """Returns the links of one epoch: random ones, or for row-wise batches all links of random rows."""
        every, most = self.supervision, self.links_per_epoch
        if most is None or most >= every.col.numel():
            return every
        if self.kind == "rows":
            rows = torch.randperm(every.num_rows, generator=generator, device=generator.device)
            chosen = every.entries_of(rows)[1][:most]
        else:
            chosen = torch.randperm(every.col.numel(), generator=generator, device=generator.device)[:most]
        chosen = chosen.sort().values
        return CSR(row_pointers(every.row[chosen], every.num_rows), every.col[chosen], every.num_cols)


def oriented(heads: Tensor, tails: Tensor, directed: bool) -> Tensor:
    """Returns pairs [2, P]; undirected ones with the lower node first, which makes scores symmetric."""
    if directed:
        return torch.stack([heads, tails])
    return torch.stack([torch.minimum(heads, tails), torch.maximum(heads, tails)])


def make_extractor(view: GraphView, settings: SubgraphsConfig, seed: int) -> SubgraphExtractor:
    most = None if settings.nodes_per_hop == "all" else settings.nodes_per_hop
    return SubgraphExtractor(view.neighbours, settings.hops, most, seed)


class LocalMethod(Learner[LocalBatch]):
    """A local model, trained on a task."""

    model: LocalModel

    def __init__(self, name: str, task: LinkTask, config: Config, model: LocalModel) -> None:
        super().__init__(task, config, model)
        self.name = name

    @property
    def summary(self) -> str:
        m, s = self.config.model, self.config.subgraphs
        return f"{self.name} in {s.hops}-hop subgraphs, {m.layers} layers of {m.hidden}"

    @cached_property
    def _features(self) -> Tensor:
        return self.task.features.to(self.device)

    @cached_property
    def _training_extractor(self) -> SubgraphExtractor:
        return self._extractor(self.task.train_view)

    def _extractor(self, view: GraphView) -> SubgraphExtractor:
        return make_extractor(view.to(self.device), self.config.subgraphs, self.config.training.seed)

    def batches(self) -> LocalBatches:
        s, cut = self.config.sampling, self.config.subgraphs
        view = self.task.train_view.to(self.device)
        return LocalBatches(
            view=view,
            supervision=view.out_rows,
            kind=s.batches,
            links_per_batch=s.links_per_batch,
            links_per_epoch=None if cut.links_per_epoch == "all" else cut.links_per_epoch,
            negatives=s.negatives,
            negatives_per_positive=s.negatives_per_positive,
            subgraphs=cut,
        )

    def loss(self, batch: LocalBatch) -> Loss:
        scores = self.model.score(batch.subgraphs, self._features)
        positive, negative = scores[: batch.num_positives], scores[batch.num_positives :]
        return self.link_loss(positive, negative, batch.negative_of)

    def count(self, batch: LocalBatch, counters: Counters) -> None:
        counters.gnn_node_encodings += batch.subgraphs.nodes.numel() * self.model.convolutions
        counters.pairs_scored += batch.subgraphs.num_pairs

    def encode(self, view: GraphView) -> Scorer:
        """Cuts subgraphs out of the view as pairs are asked for, in evaluation mode."""
        self.model.eval()
        training = view is self.task.train_view
        extractor = self._training_extractor if training else self._extractor(view)
        return LocalScorer(self.model, extractor, self._features, view.directed)


class LocalScorer(Scorer):
    """Scores pairs by their subgraphs, as many at a time as memory allows."""

    @torch.no_grad()
    def __init__(self, model: LocalModel, extractor: SubgraphExtractor, features: Tensor, directed: bool) -> None:
        self.model, self.extractor, self.directed = model, extractor, directed
        self.num_nodes, self.device = features.shape[0], features.device
        self.pair_microseconds = 300 if self.device.type == "cuda" else 3000
        self._projected = model.features(features)

    @torch.no_grad()
    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        pairs = oriented(heads.to(self.device), tails.to(self.device), self.directed)
        parts = [self._score(chunk) for chunk in self._chunks(pairs)]
        return torch.cat([torch.empty(0, device=self.device), *parts]).to(heads.device)

    def _score(self, pairs: Tensor) -> Tensor:
        subgraphs = self.extractor.extract(pairs)
        logits: Tensor = self.model(subgraphs, F.embedding(subgraphs.nodes, self._projected))
        return logits

    def _chunks(self, pairs: Tensor) -> tuple[Tensor, ...]:
        """Cuts pairs [2, P] where the work of a chunk is done; one pair at least per chunk."""
        if pairs.shape[1] == 0:
            return ()
        chunk = torch.div(self.extractor.work(pairs).double().cumsum(0), WORK_PER_CHUNK[self.device.type]).long()
        return torch.split(pairs, torch.unique_consecutive(chunk, return_counts=True)[1].tolist(), dim=1)
